"""What the steps inside the runs of one group show: fetched when somebody looks at it."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.text import slugify
from django.views.decorators.http import require_GET

from dashboard.access.rights import by_link, readable
from dashboard.comparisons.figures import inside_plots, loss_words, quantile_words
from dashboard.environment_symbols import marks
from dashboard.typed_requests import OpenRequest
from experiments.comparisons.series import inside
from experiments.comparisons.trainings import trainings


@by_link
@require_GET
def steps(request: OpenRequest, pk: int) -> HttpResponse:
    """Step times, losses and accuracies of one workload at one scale; as a fragment, these alone.

    A page of its own, because a thousand runs hold a million steps.
    """
    experiment = readable(request, pk)
    rows = experiment.workloads.order_by("name")
    name = request.GET.get("workload") or rows.values_list("name", flat=True).first()
    workload = get_object_or_404(rows, name=name)
    scale = request.GET.get("scale") or experiment.scales[0]
    found = inside(experiment, workload, scale)
    known = marks(experiment)
    name = f"{workload.pk}-{slugify(scale)}"
    context = {
        "experiment": experiment,
        "workload": workload,
        "scale": scale,
        "marks": known,
        "plots": inside_plots(found, known, name),
        "left_out": found.left_out,
        "quantiles": quantile_words(found),
        "agreements": loss_words(found, experiment.baseline.name),
        "trained": trainings(experiment, list(known)).get((workload.pk, scale)),
    }
    fragment = "#steps" if request.htmx else ""
    return render(request, f"comparisons/steps.html{fragment}", context)
