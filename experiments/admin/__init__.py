"""Administration: clusters, credentials, people and the catalogue, in Django's own pages."""

from experiments.admin import catalogue_pages, people

__all__ = ["catalogue_pages", "people"]
