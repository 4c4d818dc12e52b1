"""Figures of comparisons as files: SVG, PNG and PDF.

A file that is kept is found by what it was asked for and what the comparison rests on: nothing is
read for it. Whatever has to be read and drawn first takes a turn.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from dashboard.access.hidden_names import find_anonymity, mark_as_hidden
from dashboard.access.rights import by_link, get_readable, get_readable_table
from dashboard.access.visitors import Visitor
from dashboard.comparisons.figure_kinds import (
    BATCHES,
    CONTROL_CHARTS,
    FOREST,
    RUN_FIGURES,
    count_pages,
    read_groups,
)
from dashboard.comparisons.forest_figure import describe_comparison
from dashboard.comparisons.printed_figures import FIGURES, describe_kind
from dashboard.comparisons.safe_files import Named, make_file_name
from dashboard.drawings.axes_figure import AxesFigure
from dashboard.drawings.drawing_process import (
    Busy,
    DrawingOrder,
    Ending,
    KnownOrder,
    NotDrawn,
    TookTooLong,
    draw_in_turn,
    find_drawn,
    find_order,
    keep_order,
    prepare_order,
    take_turn,
)
from dashboard.drawings.forest import Forest
from dashboard.drawings.forest_columns import MEASURES
from dashboard.drawings.themes import THEMES
from dashboard.typed_requests import OpenRequest, is_head, parse_whole_number
from experiments.access.anonymity import Anonymity
from experiments.comparisons import Comparison, Latest, find_latest, read_latest
from experiments.comparisons.published_tables import compare_published
from experiments.models import Experiment
from experiments.statistics.published.printed import TableError

KINDS: dict[str, str] = {
    "svg": "image/svg+xml",
    "png": "image/png",
    "pdf": "application/pdf",
}
UNAVAILABLE = 503
RETRY_SECONDS = 3  # about as long as one takes; pages ask by themselves (static/js/figures.js)
LESS = (
    "A figure of one configuration takes less time, and so does the CSV of its numbers: both are "
    "in the comparison’s menu Export or beside the figure."
)


@dataclass(frozen=True)
class Subject:
    """Whose figures are sent: an experiment, a published table, or several of them."""

    row: Named
    identity: str
    """A text that is another one as soon as the comparison may be; "" where none is kept."""
    read: Callable[[], Comparison | Forest | AxesFigure]
    """Returns the comparison, or the figure where that alone is drawn of it."""
    computed_at: str = ""
    """When the comparison was computed, where it is not the one of now; for the file's name."""


@by_link
@require_safe
def figure(request: OpenRequest, pk: int, ending: Ending, name: str = FOREST) -> HttpResponseBase:
    """Send a figure of an experiment's comparison; its old address knows the forest plot alone.

    It is of the comparison that the page shows.
    """
    experiment = get_readable(request, pk)
    latest = find_latest(experiment)
    # With the time: where a backup was restored, other runs may have the same number of events.
    identity = f"experiment {pk} {latest.key} {latest.row.kept_at}" if latest.row else ""
    subject = Subject(
        experiment,
        identity,
        lambda: _read_shown(experiment, latest),
        f"{latest.row.kept_at:%Y%m%dT%H%MZ}" if latest.row and latest.is_behind else "",
    )
    return send_figure(request, subject, name, ending)


def _read_shown(experiment: Experiment, latest: Latest) -> Comparison:
    comparison, read = read_latest(experiment)
    if read.is_missing or read.key != latest.key:
        raise Busy("Its numbers are being computed at the moment; try again in a minute.")
    return comparison


@by_link
@require_safe
def table_figure(
    request: OpenRequest, pk: int, ending: Ending, name: str = FOREST
) -> HttpResponseBase:
    """Send a figure of a published table's comparison."""
    row = get_readable_table(request, pk)
    columns = [str(getattr(row, field.attname)) for field in row._meta.concrete_fields]
    subject = Subject(row, json.dumps(["table", *columns]), lambda: compare_published(row))
    try:
        return send_figure(request, subject, name, ending)
    except TableError as error:
        raise Http404(str(error)) from error


def send_figure(
    request: OpenRequest, subject: Subject, name: str, ending: Ending
) -> HttpResponseBase:
    """Return the figure in the width, theme and page that the address asks for.

    Widths are 180 (two columns) or 88 (one); a PDF has all pages unless one is requested. 404 where
    there is no such figure, before anything is drawn; 503 with the reason where it could not be.
    For HEAD nothing is drawn.
    """
    width, theme = request.GET.get("width", "180"), request.GET.get("theme", "light")
    page = request.GET.get("page", "0" if ending == "pdf" else "1")
    is_known = name in (FOREST, CONTROL_CHARTS, *RUN_FIGURES) or name in FIGURES
    if not is_known or width not in map(str, MEASURES) or theme not in THEMES or not _is_page(page):
        raise Http404("There is no figure of this name, width, theme or page.")
    anonymity = find_anonymity(request.user)
    wanted = _Wanted(request, subject, name, ending, int(width), theme, int(page), anonymity)
    try:
        file, pages = wanted.find() or wanted.draw()
    except NotDrawn as error:
        return _say_not_drawn(request, error)
    response: HttpResponse | StreamingHttpResponse = (
        StreamingHttpResponse((), content_type=KINDS[ending])  # whose length nobody knows yet
        if file is None
        else HttpResponse(file, content_type=KINDS[ending])
    )
    part = f"-page-{page}-of-{pages}" if pages > 1 and int(page) else ""
    part += f"-of-{subject.computed_at}" if subject.computed_at else ""
    # A slug respells names, so that they could not be hidden in it: "mullers" for "Müller's".
    file_name = make_file_name(
        subject.row,
        f"{name.replace('_', '-')}-{width}mm{part}",
        f".{ending}",
        has_question=not anonymity,
    )
    wants_file = "download" in request.GET
    response["Content-Disposition"] = content_disposition_header(wants_file, file_name) or "inline"
    return mark_as_hidden(response) if anonymity else response


@dataclass(frozen=True)
class _Wanted:
    """One file as a request asks for it."""

    request: OpenRequest
    subject: Subject
    name: str
    ending: Ending
    width: int
    theme: str
    page: int
    anonymity: Anonymity | None

    @property
    def configuration(self) -> int:
        return parse_whole_number(self.request.GET.get("configuration", "")) or 0

    @property
    def is_again(self) -> bool:
        """Return whether a person asks for it once more, after it took too long."""
        return "again" in self.request.GET

    def identify(self) -> str:
        """Return the name of this file among all that were asked for."""
        scaling = self.request.GET.get("scaling", "")
        parts = [
            _hash_code(),
            self.subject.identity,
            self.anonymity.identity if self.anonymity else "",
            *(self.name, self.ending, self.width, self.theme, self.page, self.configuration),
            BATCHES.get(scaling, ""),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def find(self) -> tuple[bytes, int] | None:
        """Return the kept file and its number of pages; nothing is read to know them."""
        known = find_order(self.identify()) if self.subject.identity else None
        file = find_drawn(known.key, again=self.is_again) if known else None
        return (file, known.pages) if known and file is not None else None

    def draw(self) -> tuple[bytes | None, int]:
        """Return the file and its number of pages, drawn where it is not kept.

        None for a file that would have to be drawn for HEAD.
        """
        with take_turn(is_visitor=isinstance(self.request.user, Visitor)):
            order, pages = self._describe()
            file = find_drawn(order.key, again=self.is_again)
            if file is None and not is_head(self.request):
                file = draw_in_turn(order)
            return file, pages

    def _describe(self) -> tuple[DrawingOrder, int]:
        hide = self.anonymity.hide if self.anonymity else str
        shown = self.subject.read()
        described: Forest | AxesFigure | None
        if isinstance(shown, Forest | AxesFigure):
            described, configurations = shown, 0
        else:
            described = _describe(self.request, shown, self.name, hide)
            configurations = len(shown.groups)
        if described is None:
            raise Http404("There is no such figure of this comparison.")
        first = 0 if self.ending == "pdf" else 1
        pages = count_pages(described, self.width)
        if not first <= self.page <= pages:
            raise Http404("The figure has no such page.")
        order = prepare_order(
            described, width=self.width, theme=self.theme, ending=self.ending, page=self.page
        )
        # Others are the figure of all configurations by another address: any number of them.
        if self.subject.identity and self.configuration <= configurations:
            keep_order(self.identify(), KnownOrder(order.key, pages))
        return order, pages


@cache
def _hash_code() -> str:
    """Return a hash of the code that turns a comparison into a figure."""
    digest = hashlib.sha256()
    for path in sorted((Path(settings.BASE_DIR) / "dashboard").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _describe(
    request: OpenRequest, comparison: Comparison, name: str, hide: Callable[[str], str]
) -> Forest | AxesFigure | None:
    if name == FOREST:
        return describe_comparison(comparison, hide)
    kind = FIGURES.get(name)
    if kind is None or not isinstance(comparison, kind.of):
        return None
    groups = read_groups(kind, comparison, request)
    return describe_kind(kind, comparison, groups, hide, request.GET.get("scaling", ""))


def _is_page(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 4


def _say_not_drawn(request: OpenRequest, error: NotDrawn) -> HttpResponse:
    """Return the reason: as text for pictures, whose page says it, and as a page for a link.

    A picture that says so would end the page's asking.
    """
    sentences = [str(error)]
    if isinstance(error, TookTooLong):
        sentences.append(LESS)
    context = {"reason": " ".join(sentences), "again": _ask_again(request)}
    if "download" in request.GET:
        response = render(request, "comparisons/not_drawn.html", context, status=UNAVAILABLE)
    else:
        response = HttpResponse(
            f"This figure could not be drawn. {context['reason']}\n",
            content_type="text/plain; charset=utf-8",
            status=UNAVAILABLE,
        )
    if isinstance(error, Busy):
        response["Retry-After"] = str(RETRY_SECONDS)
    return response


def _ask_again(request: OpenRequest) -> str:
    query = request.GET.copy()
    query["again"] = "1"
    return f"{request.path}?{query.urlencode()}"
