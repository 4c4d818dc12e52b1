"""Two runs of the reader's choice side by side, and the choice of the second one."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from dashboard.access.hidden_names import find_hiding
from dashboard.access.rights import by_link
from dashboard.comparisons.figure_views import Subject, send_figure
from dashboard.comparisons.safe_files import FileName
from dashboard.comparisons.shown_figures import ShownFigure
from dashboard.drawings.axes_figure import AxesFigure
from dashboard.drawings.drawing_process import Ending
from dashboard.environment_symbols import assign_symbols
from dashboard.execution.paired_series import describe_series_of_two, draw_paired_series
from dashboard.execution.run_figures import SERIES as SERIES_FIGURE
from dashboard.execution.two_runs import (
    list_candidates,
    list_paired_facts,
    make_heads,
    make_two_runs,
)
from dashboard.typed_requests import OpenRequest
from experiments.models import Experiment, Run

ALL = "all"
RIGHT = "right"
FACTS, SERIES = "facts", "series"
PARTS = {"facts-found": FACTS, "series": SERIES}
"""The parts of the page that can be replaced, by the ids of their elements."""


@by_link
@require_safe
def two_runs(request: OpenRequest, left: str, right: str) -> HttpResponse:
    """Show two runs side by side; as a fragment, their facts or their series.

    `?facts=all` has every fact of their snapshots, `?find=` those that contain its words, and
    `?series=` draws one series in place of the first ones.
    """
    runs = _get(request, left), _get(request, right)
    is_part = request.htmx and not request.htmx.history_restore_request
    part = PARTS.get(request.htmx.target or "", "") if is_part else ""
    heads = make_heads(*runs)
    context: dict[str, Any] = {
        "sides": heads,
        "has_all": request.GET.get("facts") == ALL,
        "search_text": request.GET.get("find", "").strip(),
    }
    if part != SERIES:
        context["facts"] = list_paired_facts(
            *runs,
            is_member=request.user.is_authenticated,
            has_all=context["has_all"],
            search_text=context["search_text"],
        )
    if part != FACTS:
        chosen = request.GET.get("series", "")
        context["series"] = series = draw_paired_series(*runs, heads, chosen)
        described = describe_series_of_two(series, heads, find_hiding(request.user))
        if described:
            address = reverse("two_runs_series_svg", args=[left, right]).removesuffix("svg")
            query = {"series": series.chosen} if series.chosen else {}
            context["figure"] = ShownFigure(described, f"{address}ENDING", query)
        context["experiment"] = runs[0].experiment
    if not part:
        context["two"] = make_two_runs(*runs)
    fragment = f"#{part}" if part else ""
    return render(request, f"execution/runs/two.html{fragment}", context)


@by_link
@require_safe
def two_runs_figure(
    request: OpenRequest, left: str, right: str, ending: Ending
) -> HttpResponseBase:
    """Send the series of two runs as a figure; `?series=` chooses one, as on their page."""
    runs = _get(request, left), _get(request, right)

    def describe() -> AxesFigure:
        heads = make_heads(*runs)
        series = draw_paired_series(*runs, heads, request.GET.get("series", ""))
        described = describe_series_of_two(series, heads, find_hiding(request.user))
        if described is None:
            raise Http404("Neither run has recorded a number step by step.")
        return described

    name = FileName(f"runs-{left}-{right}", runs[0].experiment.question)
    return send_figure(request, Subject(name, "", describe), SERIES_FIGURE, ending)


@by_link
@require_safe
def choose_second_run(request: OpenRequest, left: str) -> HttpResponse:
    """List runs to be shown beside one; `?keep=right` keeps that one on the right side."""
    row = _get(request, left)
    search_text = request.GET.get("q", "").strip()[:100]
    candidates = list(list_candidates(request.user, row, search_text))
    context = {
        "run": row,
        "mark": assign_symbols(row.experiment)[row.environment.name],
        "candidates": candidates,
        "search_text": search_text,
        "keeps_right": request.GET.get("keep") == RIGHT,
    }
    return render(request, "execution/runs/choose_second.html", context)


def _get(request: OpenRequest, uid: str) -> Run:
    """Return the run; Http404 if it is hidden from the reader."""
    visible = Experiment.objects.visible_to(request.user)
    rows = Run.objects.filter(experiment__in=visible).select_related(
        "experiment__baseline",
        "experiment__cluster",
        "job__cluster",
        "job__snapshot",
        "workload",
        "environment",
        "snapshot",
        "measure_notes",
    )
    return get_object_or_404(rows.defer("experiment__plan", "job__script", "output_tail"), uid=uid)
