"""Files of one experiment or table by the API: those of the menu Export, by the same functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404

from dashboard.api.document import PLAIN_TEXT, describe_content
from dashboard.api.experiment_routes import REFUSED, Key, find_experiment
from dashboard.api.limits import HEAVY
from dashboard.api.problems import Problem, ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.table_routes import find_compared_table
from dashboard.api.tokens import READ
from dashboard.comparisons import bundle_views, export_views
from dashboard.comparisons.methods import describe_methods
from dashboard.images import image_views
from dashboard.provenance import checklist_views, provenance_views
from dashboard.publishing import publication_views
from experiments.comparisons import read_comparison
from experiments.models import Image

router = Router(tags=["Files"])
NO_METHODS = "There are no results yet that methods could be about."
View = Callable[..., HttpResponseBase]
PARQUET, TEX = "application/vnd.apache.parquet", "application/x-tex"
JSONLD = "application/ld+json"
VIEWS: dict[str, tuple[View, str, str]] = {
    "bundle.zip": (bundle_views.bundle, "application/zip", "The bundle, which checks itself."),
    "comparison.csv": (export_views.comparison_csv, "text/csv", "The comparison."),
    "comparison.tex": (export_views.comparison_tex, TEX, "The comparison."),
    "comparison.parquet": (export_views.comparison_parquet, PARQUET, "The comparison."),
    "citation.bib": (publication_views.citation_bib, "application/x-bibtex", "Its citation."),
    "CITATION.cff": (publication_views.citation_cff, "application/yaml", "Its citation."),
    "provenance.jsonld": (provenance_views.provenance_file, JSONLD, "Its provenance, as PROV."),
    "checklist.md": (checklist_views.checklist_file, "text/markdown", "Its checklist."),
}
"""The last part of an address -> the view of the page, its type, and what it is."""
TABLE_VIEWS: dict[str, tuple[View, str, str]] = {
    "comparison.csv": (export_views.table_csv, "text/csv", "The comparison of a table."),
    "comparison.tex": (export_views.table_tex, TEX, "The comparison of a table."),
    "comparison.parquet": (export_views.table_parquet, PARQUET, "The comparison of a table."),
    "table.csv": (export_views.table_text, "text/csv", "The table, safe for spreadsheets."),
}
IMAGE_VIEWS: dict[str, tuple[View, str, str]] = {
    f"software.{kind}.json": (
        partial(image_views.bill_of_materials, kind=kind),
        "application/json",
        f"Its software, as {name}.",
    )
    for kind, name in (("spdx", "SPDX"), ("cdx", "CycloneDX"))
}


def _add_route(
    place: str,
    name: str,
    find: Callable[[ApiRequest, int], Any],
    view: View,
    media: str,
    about: str,
) -> None:
    def send_file(request: ApiRequest, pk: Key) -> HttpResponseBase:
        find(request, pk)
        return send_as_page(view(request, pk))

    send_file.__doc__ = f"Return {about[0].lower()}{about[1:]}"
    send_file.__name__ = f"read_{PREFIXES[place]}{name.replace('.', '_')}"
    router.get(
        f"{place}/{{pk}}/{name}",
        auth=READ,
        throttle=HEAVY,
        operation_id=send_file.__name__,
        response={200: None, 409: ProblemSchema, 503: ProblemSchema, **REFUSED},
        openapi_extra=describe_content(media, about, is_text=not media.endswith(STRUCTURED)),
    )(send_file)


def _find_image(request: ApiRequest, pk: int) -> Image:
    return get_object_or_404(Image.objects.visible_to(request.user), pk=pk)


def send_as_page(answer: HttpResponseBase) -> HttpResponseBase:
    """Return the file that a page's view has sent. Raises Problem where it has sent an error."""
    if answer.status_code < HTTPStatus.BAD_REQUEST:
        return answer
    text = getattr(answer, "content", b"").decode()
    plain = text.strip() if answer["Content-Type"].startswith("text/plain") else ""
    headers: dict[str, Any] = {}
    if "Retry-After" in answer:
        headers["Retry-After"] = answer["Retry-After"]
    status = HTTPStatus(answer.status_code)
    raise Problem(status, plain or "It cannot be sent now: try again later.", headers=headers)


PREFIXES = {"experiments": "", "tables": "table_", "images": "image_"}
STRUCTURED = ("json", "yaml")
"""Ends of types that programs read as more than a text."""
for _name, (_view, _media, _about) in VIEWS.items():
    _add_route("experiments", _name, find_experiment, _view, _media, _about)
for _name, (_view, _media, _about) in TABLE_VIEWS.items():
    _add_route("tables", _name, find_compared_table, _view, _media, _about)
for _name, (_view, _media, _about) in IMAGE_VIEWS.items():
    _add_route("images", _name, _find_image, _view, _media, _about)


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
