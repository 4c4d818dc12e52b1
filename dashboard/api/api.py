"""The API at /api/v1/: its routes, and the OpenAPI document that is made of them."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver
from ninja import NinjaAPI

from dashboard.api import account_routes, experiment_routes, limits
from dashboard.api.problems import answer_problems

api = NinjaAPI(
    title="Tare",
    version="1",
    description="What does a container cost? Experiments, their runs and their verdicts.",
    urls_namespace="api",
    docs_url=None,
    openapi_url="openapi.json",
    throttle=limits.USUAL,
)
answer_problems(api)
api.add_router("", account_routes.router)
api.add_router("", experiment_routes.router)


def list_urls() -> list[URLPattern | URLResolver]:
    """Return the addresses of the API; tokens take the place of the log-in that pages ask for."""
    patterns: list[URLPattern | URLResolver] = api.urls[0]
    for pattern in patterns:
        if isinstance(pattern, URLPattern):
            pattern.callback.login_required = False  # type: ignore[attr-defined]
    return patterns
