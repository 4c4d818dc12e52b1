"""Files of one experiment by the API: those of the page's menu Export, by the same functions."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse, HttpResponseBase
from ninja import Router

from dashboard.api.document import PLAIN_TEXT, describe_content
from dashboard.api.experiment_routes import REFUSED, Key, find_experiment
from dashboard.api.limits import HEAVY
from dashboard.api.problems import Problem, ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.tokens import READ
from dashboard.comparisons import bundle_views, export_views
from dashboard.comparisons.methods import describe_methods
from experiments.comparisons import read_comparison

router = Router(tags=["Files"])
NO_METHODS = "There are no results yet that methods could be about."
VIEWS: dict[str, tuple[Callable[..., HttpResponseBase], str, str]] = {
    "bundle.zip": (bundle_views.bundle, "application/zip", "The bundle, which checks itself."),
    "comparison.csv": (export_views.comparison_csv, "text/csv", "The comparison."),
    "comparison.tex": (export_views.comparison_tex, "application/x-tex", "The comparison."),
    "comparison.parquet": (
        export_views.comparison_parquet,
        "application/vnd.apache.parquet",
        "The comparison.",
    ),
}
"""The last part of an address -> the view of the page, its type, and what it is."""


def _add_route(
    name: str, view: Callable[..., HttpResponseBase], media_type: str, about: str
) -> None:
    def send_file(request: ApiRequest, pk: Key) -> HttpResponseBase:
        find_experiment(request, pk)
        answer = view(request, pk)
        if answer.status_code < HTTPStatus.BAD_REQUEST:
            return answer
        text = getattr(answer, "content", b"").decode()
        plain = text.strip() if answer["Content-Type"].startswith("text/plain") else ""
        headers: dict[str, Any] = {}
        if "Retry-After" in answer:
            headers["Retry-After"] = answer["Retry-After"]
        status = HTTPStatus(answer.status_code)
        raise Problem(status, plain or "It cannot be sent now: try again later.", headers=headers)

    send_file.__doc__ = f"Return {about[0].lower()}{about[1:]}"
    send_file.__name__ = f"read_{name.replace('.', '_')}"
    router.get(
        f"experiments/{{pk}}/{name}",
        auth=READ,
        throttle=HEAVY,
        operation_id=send_file.__name__,
        response={200: None, 409: ProblemSchema, 503: ProblemSchema, **REFUSED},
        openapi_extra=describe_content(media_type, about),
    )(send_file)


for _name, _parts in VIEWS.items():
    _add_route(_name, *_parts)


@router.get(
    "experiments/{pk}/methods.txt",
    auth=READ,
    response={200: None, 409: ProblemSchema, **REFUSED},
    openapi_extra=PLAIN_TEXT,
)
def read_methods(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return the paragraphs for the methods section of a paper."""
    comparison = read_comparison(find_experiment(request, pk))
    if not (comparison.pairs and comparison.has_numbers):
        raise Problem(HTTPStatus.CONFLICT, NO_METHODS)
    text = "\n\n".join(describe_methods(comparison)) + "\n"
    return HttpResponse(text, content_type="text/plain; charset=utf-8")
