"""The steps inside the runs of one group: a panel that is fetched when it is opened."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.text import slugify
from django.views.decorators.http import require_safe

from dashboard.access.rights import by_link, get_readable
from dashboard.comparisons.figures import describe_losses, describe_quantiles, draw_steps
from dashboard.environment_symbols import assign_symbols
from dashboard.typed_requests import OpenRequest
from experiments.comparisons.series import read_series
from experiments.comparisons.trainings import compare_all_trainings


@by_link
@require_safe
def steps(request: OpenRequest, pk: int) -> HttpResponse:
    """Show step times, losses and accuracies of one workload at one scale, or a fragment of them.

    They have a page of their own because a thousand runs have a million steps.
    """
    experiment = get_readable(request, pk)
    rows = experiment.workloads.order_by("sort_name")
    name = request.GET.get("workload") or rows.values_list("name", flat=True).first()
    workload = get_object_or_404(rows, name=name)
    scale = request.GET.get("scale") or experiment.scales[0]
    series = read_series(experiment, workload, scale)
    symbols = assign_symbols(experiment)
    name = f"{workload.pk}-{slugify(scale)}"
    context = {
        "experiment": experiment,
        "workload": workload,
        "scale": scale,
        "marks": symbols,
        "plots": draw_steps(series, symbols, name),
        "left_out": series.left_out,
        "quantiles": describe_quantiles(series),
        "agreements": describe_losses(series, experiment.baseline.name),
        "trained": compare_all_trainings(experiment, list(symbols)).get((workload.pk, scale)),
    }
    fragment = "#steps" if request.htmx else ""
    return render(request, f"comparisons/steps.html{fragment}", context)
