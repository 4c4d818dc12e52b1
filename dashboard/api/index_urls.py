"""The address above all versions of the API."""

from dashboard.api.addresses import list_index

urlpatterns = list_index()
