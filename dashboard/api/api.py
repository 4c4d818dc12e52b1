"""The API at /api/v1/: its routes, and the OpenAPI document that is made of them."""

from __future__ import annotations

from django.urls import URLPattern

from dashboard.api import account_routes, experiment_routes, limits
from dashboard.api.addresses import list_addresses
from dashboard.api.document import DocumentedApi
from dashboard.api.problems import answer_problems
from dashboard.api.strict_requests import StrictParser

api = DocumentedApi(
    title="Tare",
    version="1",
    description="What does a container cost? Experiments, their runs and their verdicts.",
    urls_namespace="api",
    docs_url=None,
    openapi_url="openapi.json",
    parser=StrictParser(),
    throttle=limits.USUAL,
)
answer_problems(api)
api.add_router("", account_routes.router)
api.add_router("", experiment_routes.router)




def list_urls() -> list[URLPattern]:
    """Return the addresses of the API."""
    return list_addresses(api)
