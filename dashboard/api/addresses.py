"""The addresses of the API as Django knows them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, partial

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import URLPattern, path, reverse
from ninja import NinjaAPI

from dashboard.api import mlflow_views
from dashboard.api.strict_requests import View, answer_strictly

PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")


def list_addresses(api: NinjaAPI) -> list[URLPattern]:
    """Return the addresses of this version of the API, each once, those without parameters first.

    django-ninja has an address once for each module that answers one of its methods, and Django
    would ask the first of them alone; and `experiments/check` must not be an experiment's number.
    Tokens take the place of the log-in that pages ask for.
    """
    views: dict[str, list[View]] = {}
    names: dict[str, str] = {}
    patterns = [pattern for pattern in api.urls[0] if isinstance(pattern, URLPattern)]
    for pattern in patterns:
        route = str(pattern.pattern)
        views.setdefault(route, []).append(pattern.callback)
        names.setdefault(route, pattern.name or "")
    addresses = [
        path(route, _open(_make_view(api, route, views[route])), name=names[route])
        for route in sorted(views, key=_sort_fixed_first)
    ]
    addresses.append(path(mlflow_views.ADDRESS, _open(mlflow_views.answer_mlflow), name="mlflow"))
    return addresses


def list_index() -> list[URLPattern]:
    """Return the address above all versions of the API."""
    return [path("", _open(answer_strictly([answer_index], _list_get_alone)))]


def _sort_fixed_first(route: str) -> tuple[bool, ...]:
    return tuple("<" in part for part in route.split("/"))


def _make_view(api: NinjaAPI, route: str, views: list[View]) -> View:
    if route == api.openapi_url:
        return answer_strictly(views, _list_get_alone)
    if not route:
        return answer_strictly([answer_index], _list_get_alone)
    return answer_strictly(views, partial(_find_methods, api, PARAMETER.sub(r"{\1}", route)))


def _list_get_alone() -> Mapping[str, frozenset[str]]:
    return {"GET": frozenset()}


@cache
def _find_methods(api: NinjaAPI, route: str) -> Mapping[str, frozenset[str]]:
    operations = api.get_openapi_schema(path_prefix="")["paths"][f"/{route}"]
    return {
        method.upper(): frozenset(
            parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"
        )
        for method, operation in operations.items()
    }


def _open(view: View) -> View:
    view.login_required = False  # type: ignore[attr-defined]
    view.csrf_exempt = True  # type: ignore[attr-defined]
    return view


def answer_index(request: HttpRequest) -> HttpResponse:
    """Say where the API is described, and where programs begin."""
    return JsonResponse(
        {
            "openapi": reverse("api:openapi-json"),
            "me": reverse("api:read_me"),
            "experiments": reverse("api:list_experiments"),
            "help": reverse("document", args=["api"]),
            "tokens": reverse("api_tokens"),
        }
    )
