"""The addresses of the API as Django knows them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import URLPattern, path, reverse

from dashboard.api import mlflow_views
from dashboard.api.document import DocumentedApi
from dashboard.api.routers import list_query_parameters
from dashboard.api.strict_requests import View, answer_strictly

PARAMETER = re.compile(r"[<{](?:\w+:)?(\w+)[>}]")
Methods = Mapping[str, frozenset[str]]
"""The methods of an address, each with the names that its query takes."""
READ_ALONE: Methods = {"GET": frozenset()}


def list_addresses(api: DocumentedApi) -> list[URLPattern]:
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
    methods = _list_methods(api)
    views[str(api.openapi_url)], views[""] = [api.answer_document], [answer_index]
    addresses = [
        path(
            route,
            _open(answer_strictly(views[route], methods.get(_name_parts(route), READ_ALONE))),
            name=names[route],
        )
        for route in sorted(views, key=_sort_fixed_first)
    ]
    addresses.append(path(mlflow_views.ADDRESS, _open(mlflow_views.answer_mlflow), name="mlflow"))
    return addresses


def list_index() -> list[URLPattern]:
    """Return the address above all versions of the API."""
    return [path("", _open(answer_strictly([answer_index], READ_ALONE)))]


def _sort_fixed_first(route: str) -> tuple[bool, ...]:
    return tuple("<" in part for part in route.split("/"))


def _name_parts(route: str) -> str:
    """Return an address as Django or django-ninja writes it, without types of its parts."""
    return PARAMETER.sub(r"{\1}", route)


def _list_methods(api: DocumentedApi) -> Mapping[str, Methods]:
    """Return the methods of each address, with the parameters of the functions that answer them."""
    methods: dict[str, dict[str, frozenset[str]]] = defaultdict(dict)
    for route, operation in api.list_operations():
        for method in operation.methods:
            methods[_name_parts(route)][method] = list_query_parameters(operation.models)
    return methods


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
