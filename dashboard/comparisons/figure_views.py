"""Figures of comparisons as files: SVG, PNG and PDF."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Literal

from django.http import Http404, HttpResponse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET

from dashboard.access.hidden_names import find_anonymity, mark_as_hidden
from dashboard.access.rights import by_link, get_readable, get_readable_table
from dashboard.access.visitors import Visitor
from dashboard.comparisons.forest_figure import describe_comparison
from dashboard.comparisons.panels import BATCHES
from dashboard.comparisons.printed_figures import (
    FIGURES,
    FOREST,
    count_pages,
    describe_scalings,
    read_groups,
)
from dashboard.comparisons.safe_files import make_file_name
from dashboard.drawings.axes_figure import AxesFigure
from dashboard.drawings.drawing_process import Busy, Ending, NotDrawn, draw
from dashboard.drawings.forest import Forest
from dashboard.drawings.forest_layout import MEASURES
from dashboard.drawings.themes import THEMES
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import Comparison, read_comparison
from experiments.comparisons.published_tables import compare_published
from experiments.statistics.published.printed import TableError

KINDS: dict[str, str] = {
    "svg": "image/svg+xml",
    "png": "image/png",
    "pdf": "application/pdf",
}
UNAVAILABLE = 503
RETRY_SECONDS = 3  # about as long as one takes; pages ask by themselves (static/js/figures.js)
MESSAGE = (
    '<svg xmlns="http://www.w3.org/2000/svg" role="img" width="680" height="64">'
    "<title>Not drawn</title>"
    '<text x="12" y="26" font-family="sans-serif" font-size="15" fill="#8a6100">'
    "This figure could not be drawn.</text>"
    '<text x="12" y="48" font-family="sans-serif" font-size="13" fill="#7a828a">{}</text></svg>'
)


@by_link
@require_GET
def figure(request: OpenRequest, pk: int, ending: Ending, name: str = FOREST) -> HttpResponse:
    """Send a figure of an experiment's comparison; its old address knows the forest plot alone."""
    return _send(request, read_comparison(get_readable(request, pk)), name, ending)


@by_link
@require_GET
def table_figure(request: OpenRequest, pk: int, ending: Ending, name: str = FOREST) -> HttpResponse:
    """Send a figure of a published table's comparison."""
    try:
        comparison = compare_published(get_readable_table(request, pk))
    except TableError as error:
        raise Http404(str(error)) from error
    return _send(request, comparison, name, ending)


def _send(request: OpenRequest, comparison: Comparison, name: str, ending: Ending) -> HttpResponse:
    """Return the figure in the width, theme and page that the address asks for.

    Widths are 180 (two columns) or 88 (one); a PDF has all pages unless one is requested. 404 where
    there is no such figure, before anything is drawn; 503 with the reason where it could not be.
    """
    width, theme = request.GET.get("width", "180"), request.GET.get("theme", "light")
    page = request.GET.get("page", "0" if ending == "pdf" else "1")
    if width not in map(str, MEASURES) or theme not in THEMES or not _is_page(page):
        raise Http404("There is no figure of this width, theme or page.")
    anonymity = find_anonymity(request.user)
    described = _describe(request, comparison, name, anonymity.hide if anonymity else str)
    if described is None:
        raise Http404("There is no such figure of this comparison.")
    first = 0 if ending == "pdf" else 1
    count = count_pages(described, int(width))
    if not first <= int(page) <= count:
        raise Http404("The figure has no such page.")
    try:
        file = draw(
            described,
            width=int(width),
            theme=theme,
            ending=ending,
            page=int(page),
            is_visitor=isinstance(request.user, Visitor),
        )
    except Busy as error:  # as text: a picture would end the page's asking
        response = _say_not_drawn(str(error), "")
        response["Retry-After"] = str(RETRY_SECONDS)
        return response
    except NotDrawn as error:
        return _say_not_drawn(str(error), ending)
    response = HttpResponse(file, content_type=KINDS[ending])
    part = f"-page-{page}-of-{count}" if count > 1 and int(page) else ""
    # A slug respells names, so that they could not be hidden in it: "mullers" for "Müller's".
    file_name = make_file_name(
        comparison,
        f"{name.replace('_', '-')}-{width}mm{part}",
        f".{ending}",
        has_question=not anonymity,
    )
    wants_file = "download" in request.GET
    response["Content-Disposition"] = content_disposition_header(wants_file, file_name) or "inline"
    return mark_as_hidden(response) if anonymity else response


def _describe(
    request: OpenRequest, comparison: Comparison, name: str, hide: Callable[[str], str]
) -> Forest | AxesFigure | None:
    if name == FOREST:
        return describe_comparison(comparison, hide)
    kind = FIGURES.get(name)
    if kind is None or not isinstance(comparison, kind.of):
        return None
    groups = read_groups(kind, comparison, request)
    if kind.name == "scaling":
        batch = BATCHES.get(request.GET.get("scaling", ""), "")
        return describe_scalings(comparison, hide, batch)
    return kind.describe(comparison, groups, hide)


def _is_page(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 4


def _say_not_drawn(reason: str, ending: Ending | Literal[""]) -> HttpResponse:
    """Return the reason: as a picture where one was to stand on a page, else as text."""
    if ending == "svg":
        content, kind = MESSAGE.format(escape(reason)), KINDS["svg"]
    else:
        where = "All numbers are on the comparison’s page."
        content = f"This figure could not be drawn. {reason} {where}\n"
        kind = "text/plain; charset=utf-8"
    return HttpResponse(content, content_type=kind, status=UNAVAILABLE)
