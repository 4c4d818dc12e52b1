"""The steps inside the runs of one group: a panel that is fetched when it is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.text import slugify
from django.views.decorators.http import require_safe

from dashboard.access.hidden_names import find_hiding
from dashboard.access.rights import by_link, get_readable
from dashboard.charts.packing import pack_figure
from dashboard.comparisons.figures import Plot
from dashboard.comparisons.printed_figures import describe_inside
from dashboard.comparisons.shown_figures import ShownFigure, leave_ending_open
from dashboard.comparisons.step_charts import (
    describe_losses,
    describe_quantiles,
    describe_traces,
    draw_steps,
)
from dashboard.environment_symbols import assign_symbols
from dashboard.typed_requests import OpenRequest, parse_whole_number
from experiments.comparisons.logged import list_compared_arms, list_places
from experiments.comparisons.series import Inside, read_series
from experiments.comparisons.trainings import compare_all_trainings
from experiments.models import Experiment, Workload

MOST_CARRIED = 400
"""Points of a chart that the page holds; a chart with more is fetched when somebody opens it."""


@by_link
@require_safe
def steps(request: OpenRequest, pk: int) -> HttpResponse:
    """Show step times, losses and accuracies of one workload at one scale, or a fragment of them.

    They have a page of their own because a thousand runs have a million steps. With `chart` and the
    number of the configuration, the figure of that chart alone is sent, as JSON.
    """
    experiment = get_readable(request, pk)
    workloads = sorted(experiment.workloads.all(), key=attrgetter("natural_key"))
    symbols = assign_symbols(experiment)
    places = list_places(experiment, list_compared_arms(experiment, workloads, list(symbols)))
    workload, scale = _choose_place(request, experiment, workloads, places)
    series = read_series(experiment, workload, scale)
    group_name = f"{workload.pk}-{slugify(scale)}"
    if "chart" in request.GET:
        chart = request.GET["chart"]
        plots = draw_steps(series, symbols, group_name, lambda key, _: key == chart)
        return _send_chart(plots, chart)
    number = places.index((workload, scale)) + 1 if (workload, scale) in places else 0
    figure = _show_figure(request, experiment, series, symbols, number) if number else None
    # Below a picture charts are folded, and large ones are fetched when they are opened.
    plots = draw_steps(
        series, symbols, group_name, lambda _, points: not figure or points <= MOST_CARRIED
    )
    context = {
        "experiment": experiment,
        "workload": workload,
        "scale": scale,
        "marks": symbols,
        "plots": [
            plot
            if plot.figure
            else replace(plot, source=f"{request.path}?configuration={number}&chart={key}")
            for key, plot in plots.items()
        ],
        "figure": figure,
        "left_out": series.left_out,
        "quantiles": describe_quantiles(series),
        "traces": describe_traces(series),
        "agreements": describe_losses(series, experiment.baseline.name),
        "trained": compare_all_trainings(experiment, list(symbols)).get((workload.pk, scale)),
    }
    fragment = "#steps" if request.htmx else ""
    return render(request, f"comparisons/steps.html{fragment}", context)


def _choose_place(
    request: OpenRequest,
    experiment: Experiment,
    workloads: Sequence[Workload],
    places: Sequence[tuple[Workload, str]],
) -> tuple[Workload, str]:
    """Return the workload and the scale that an address names, or those of its configuration.

    Of charts it has the number alone, since names may be hidden from a visitor. An address with
    neither means the first workload. Raises Http404 for a workload that there is not.
    """
    name = request.GET.get("workload", "")
    number = parse_whole_number(request.GET.get("configuration", "")) or 0
    if not name and 1 <= number <= len(places):
        return places[number - 1]
    scale = request.GET.get("scale") or experiment.scales[0]
    for workload in workloads:
        if name in ("", workload.name):
            return workload, scale
    raise Http404("The experiment has no such workload.")


def _send_chart(plots: Mapping[str, Plot], name: str) -> HttpResponse:
    if name not in plots:
        raise Http404("There is no such chart of these runs.")
    # Letters as they are, not as \u..., so that names can be hidden from visitors.
    options = {"ensure_ascii": False, "separators": (",", ":")}
    return JsonResponse(pack_figure(plots[name].figure), json_dumps_params=options)


def _show_figure(
    request: OpenRequest,
    experiment: Experiment,
    series: Inside,
    symbols: dict[str, int],
    number: int,
) -> ShownFigure | None:
    """Return the printed figure of the steps of the configuration with this number."""
    described = describe_inside("", series, symbols, find_hiding(request.user))
    address = leave_ending_open(reverse("figure_svg", args=[experiment.pk, "steps"]))
    query = {"configuration": str(number)}
    return ShownFigure(described, address, query) if described else None
