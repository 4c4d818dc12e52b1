"""Two experiments of the reader's choice side by side, and the choice of the second one."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from dashboard.access.hidden_names import find_hiding
from dashboard.access.rights import by_link, get_readable
from dashboard.comparisons.figure_kinds import FOREST
from dashboard.comparisons.figure_views import Subject, send_figure
from dashboard.comparisons.safe_files import FileName
from dashboard.comparisons.shown_figures import ShownFigure, ShownForest
from dashboard.comparisons.two_experiments import (
    TwoExperiments,
    list_candidates,
    list_experiment_facts,
    make_two_experiments,
)
from dashboard.comparisons.two_experiments_figures import (
    describe_ratios,
    draw_paired_steps,
)
from dashboard.drawings.axes_figure import AxesFigure
from dashboard.drawings.drawing_process import Ending
from dashboard.drawings.forest import Forest
from dashboard.typed_requests import OpenRequest, parse_whole_number

RIGHT = "right"
FACTS, CURVES = "facts", "curves"
STEPS = "steps"
PARTS = {"facts-found": FACTS, "curves": CURVES}
"""The parts of the page that can be replaced, by the ids of their elements."""


@by_link
@require_safe
def two_experiments(request: OpenRequest, left: int, right: int) -> HttpResponse:
    """Show two experiments side by side; as a fragment, their facts or the steps in their runs.

    `?find=` shows the facts that contain its words, and `?curves=` the steps of a configuration,
    by its number.
    """
    two = make_two_experiments(get_readable(request, left), get_readable(request, right))
    is_part = request.htmx and not request.htmx.history_restore_request
    part = PARTS.get(request.htmx.target or "", "") if is_part else ""
    search_text = request.GET.get("find", "").strip()
    chosen = _choose_configuration(request, two)
    hide = find_hiding(request.user)
    context: dict[str, Any] = {"two": two, "search_text": search_text, "chosen": chosen}
    if part != CURVES:
        is_member = request.user.is_authenticated
        context["facts"] = list_experiment_facts(two, is_member=is_member, search_text=search_text)
    if part != FACTS and chosen is not None:
        steps = draw_paired_steps(two, chosen, hide)
        context["plots"] = steps.plots
        if steps.described:
            address = _address_files("two_experiments_steps_svg", left, right)
            context["figure"] = ShownFigure(steps.described, address, {"curves": str(chosen)})
    if not part and (ratios := describe_ratios(two, hide)):
        address = _address_files("two_experiments_forest_svg", left, right)
        context["ratios"] = ShownForest(ratios, address)
    fragment = f"#{part}" if part else ""
    return render(request, f"comparisons/two_experiments.html{fragment}", context)


def _choose_configuration(request: OpenRequest, two: TwoExperiments) -> int | None:
    """Return the number of the configuration that the address asks for; None without one."""
    number = parse_whole_number(request.GET.get("curves", ""))
    return number if number is not None and 1 <= number <= len(two.pairs) else None


def _address_files(name: str, left: int, right: int) -> str:
    """Return the address of a figure's files, with ENDING where that of the file stands."""
    return reverse(name, args=[left, right]).removesuffix("svg") + "ENDING"


@by_link
@require_safe
def two_experiments_figure(
    request: OpenRequest, left: int, right: int, ending: Ending, name: str
) -> HttpResponseBase:
    """Send a figure of two experiments: ratios, or the steps of the configuration `?curves=`."""
    rows = get_readable(request, left), get_readable(request, right)

    def describe() -> Forest | AxesFigure:
        two = make_two_experiments(*rows)
        hide = find_hiding(request.user)
        described: Forest | AxesFigure | None = None
        if name == FOREST:
            described = describe_ratios(two, hide)
        elif (number := _choose_configuration(request, two)) is not None:
            described = draw_paired_steps(two, number, hide).described
        if described is None:
            raise Http404("The two experiments have no such figure.")
        return described

    file_name = FileName(f"experiments-{left}-{right}", rows[0].question)
    return send_figure(request, Subject(file_name, "", describe), name, ending)


@by_link
@require_safe
def choose_second_experiment(request: OpenRequest, left: int) -> HttpResponse:
    """List experiments to be shown beside one; `?keep=right` keeps that one on the right side."""
    row = get_readable(request, left)
    search_text = request.GET.get("q", "").strip()[:300]
    context = {
        "experiment": row,
        "candidates": list(list_candidates(request.user, row, search_text)),
        "search_text": search_text,
        "keeps_right": request.GET.get("keep") == RIGHT,
    }
    return render(request, "comparisons/choose_second.html", context)
