"""Figures of comparisons as files: the forest plot as SVG, PNG and PDF."""

from __future__ import annotations

from html import escape

from django.http import Http404, HttpResponse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET

from dashboard.access.hidden_names import find_anonymity, mark_as_hidden
from dashboard.access.rights import by_link, get_readable, get_readable_table
from dashboard.access.visitors import Visitor
from dashboard.comparisons.forest_figure import describe_comparison
from dashboard.comparisons.safe_files import make_file_name
from dashboard.drawings.drawing_process import Busy, Ending, NotDrawn, draw
from dashboard.drawings.forest_layout import MEASURES
from dashboard.drawings.forest_pages import break_pages
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
RETRY_SECONDS = 10
MESSAGE = (
    '<svg xmlns="http://www.w3.org/2000/svg" role="img" width="680" height="64">'
    "<title>Not drawn</title>"
    '<text x="12" y="26" font-family="sans-serif" font-size="15" fill="#8a6100">'
    "This figure could not be drawn.</text>"
    '<text x="12" y="48" font-family="sans-serif" font-size="13" fill="#7a828a">{}</text></svg>'
)


@by_link
@require_GET
def forest(request: OpenRequest, pk: int, ending: Ending) -> HttpResponse:
    """Send the forest plot of an experiment's comparison."""
    return _send(request, read_comparison(get_readable(request, pk)), ending)


@by_link
@require_GET
def table_forest(request: OpenRequest, pk: int, ending: Ending) -> HttpResponse:
    """Send the forest plot of a published table's comparison."""
    try:
        comparison = compare_published(get_readable_table(request, pk))
    except TableError as error:
        raise Http404(str(error)) from error
    return _send(request, comparison, ending)


def _send(request: OpenRequest, comparison: Comparison, ending: Ending) -> HttpResponse:
    """Return the figure in the width, theme and page that the address asks for.

    Widths are 180 (two columns) or 88 (one); a PDF has all pages unless one is requested. 404 where
    there is no such figure, before anything is drawn; 503 with the reason where it could not be.
    """
    anonymity = find_anonymity(request.user)
    figure = describe_comparison(comparison, anonymity.hide if anonymity else str)
    width, theme = request.GET.get("width", "180"), request.GET.get("theme", "light")
    page = request.GET.get("page", "0" if ending == "pdf" else "1")
    if figure is None:
        raise Http404("Nothing is compared yet.")
    if width not in map(str, MEASURES) or theme not in THEMES or not _is_page(page):
        raise Http404("There is no figure of this width, theme or page.")
    first = 0 if ending == "pdf" else 1
    count = len(break_pages(figure))
    if not first <= int(page) <= count:
        raise Http404("The figure has no such page.")
    try:
        file = draw(
            figure,
            width=int(width),
            theme=theme,
            ending=ending,
            page=int(page),
            is_visitor=isinstance(request.user, Visitor),
        )
    except NotDrawn as error:
        response = _say_not_drawn(str(error), ending)
        if isinstance(error, Busy):
            response["Retry-After"] = str(RETRY_SECONDS)
        return response
    response = HttpResponse(file, content_type=KINDS[ending])
    part = f"-page-{page}-of-{count}" if count > 1 and int(page) else ""
    # A slug respells names, so that they could not be hidden in it: "mullers" for "Müller's".
    name = make_file_name(
        comparison, f"forest-{width}mm{part}", f".{ending}", has_question=not anonymity
    )
    wants_file = "download" in request.GET
    response["Content-Disposition"] = content_disposition_header(wants_file, name) or "inline"
    return mark_as_hidden(response) if anonymity else response


def _is_page(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 4


def _say_not_drawn(reason: str, ending: Ending) -> HttpResponse:
    """Return the reason: as a picture where one was to stand on a page, else as text."""
    if ending == "svg":
        content, kind = MESSAGE.format(escape(reason)), KINDS["svg"]
    else:
        where = "All numbers are on the comparison’s page."
        content = f"This figure could not be drawn. {reason} {where}\n"
        kind = "text/plain; charset=utf-8"
    return HttpResponse(content, content_type=kind, status=UNAVAILABLE)
