"""The steps inside the runs of one group: a panel that is fetched when it is opened."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.text import slugify
from django.views.decorators.http import require_safe

from dashboard.access.hidden_names import find_hiding
from dashboard.access.rights import by_link, get_readable
from dashboard.comparisons.figures import (
    describe_losses,
    describe_quantiles,
    describe_traces,
    draw_steps,
)
from dashboard.comparisons.printed_figures import describe_inside
from dashboard.comparisons.shown_figures import ShownFigure, leave_ending_open
from dashboard.environment_symbols import assign_symbols
from dashboard.typed_requests import OpenRequest, parse_whole_number
from experiments.comparisons.series import Inside, read_series
from experiments.comparisons.trainings import compare_all_trainings
from experiments.models import Experiment
from experiments.natural_columns import pad_workload


@by_link
@require_safe
def steps(request: OpenRequest, pk: int) -> HttpResponse:
    """Show step times, losses and accuracies of one workload at one scale, or a fragment of them.

    They have a page of their own because a thousand runs have a million steps.
    """
    experiment = get_readable(request, pk)
    rows = experiment.workloads.order_by(pad_workload())
    name = request.GET.get("workload") or rows.values_list("name", flat=True).first()
    workload = get_object_or_404(rows, name=name)
    scale = request.GET.get("scale") or experiment.scales[0]
    series = read_series(experiment, workload, scale)
    symbols = assign_symbols(experiment)
    name = f"{workload.pk}-{slugify(scale)}"
    plots = draw_steps(series, symbols, name)
    number = parse_whole_number(request.GET.get("configuration", "")) or 0
    context = {
        "experiment": experiment,
        "workload": workload,
        "scale": scale,
        "marks": symbols,
        "plots": plots,
        "figure": _show_figure(request, experiment, series, symbols, number) if plots else None,
        "left_out": series.left_out,
        "quantiles": describe_quantiles(series),
        "traces": describe_traces(series),
        "agreements": describe_losses(series, experiment.baseline.name),
        "trained": compare_all_trainings(experiment, list(symbols)).get((workload.pk, scale)),
    }
    fragment = "#steps" if request.htmx else ""
    return render(request, f"comparisons/steps.html{fragment}", context)


def _show_figure(
    request: OpenRequest,
    experiment: Experiment,
    series: Inside,
    symbols: dict[str, int],
    number: int,
) -> ShownFigure | None:
    """Return the printed figure of the steps; None without the number of their configuration."""
    if not number:
        return None
    described = describe_inside("", series, symbols, find_hiding(request.user))
    address = leave_ending_open(reverse("figure_svg", args=[experiment.pk, "steps"]))
    query = {"configuration": str(number)}
    return ShownFigure(described, address, query) if described else None
