"""Administration: clusters, credentials, people and the catalogue, in Django's own pages."""

from django.contrib import admin
from django_rq.models import Dashboard

from experiments.admin import catalogue_pages, cluster_pages, people, record_pages
from experiments.admin.base import Queues

__all__ = ["catalogue_pages", "cluster_pages", "people", "record_pages"]

admin.site.site_header = "Tare administration"
admin.site.site_title = "Tare"
admin.site.index_title = "Clusters, credentials and the catalogue"
admin.site.unregister(Dashboard)
admin.site.register(Dashboard, Queues)
