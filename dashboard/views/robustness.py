"""The panel of other tests beside a comparison: fetched on demand, for it takes its time."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard.access import by_link, readable
from dashboard.charts import Figure, quantiles
from dashboard.requests import OpenRequest
from experiments.companions import Companions, companions
from experiments.comparisons import ExperimentComparison, compare_experiment

QUANTILES = (
    "along the line, the logs are normally distributed; a bend or a straggler shows at once."
)


@dataclass(frozen=True)
class Item:
    """What other tests say about one pair, with a plot of whether its values look normal."""

    found: Companions
    id: str
    figure: Figure | None
    words: str


@by_link
@require_GET
def robustness(request: OpenRequest, pk: int) -> HttpResponse:
    """What other tests say; as a fragment, the panel that takes the place of its link."""
    experiment = readable(request, pk)
    found = compare_experiment(experiment)
    context = {"experiment": experiment, "comparison": found, "items": _items(found)}
    template = "comparisons/robustness.html" + ("#panel" if request.htmx else "")
    return render(request, template, context)


def _items(comparison: ExperimentComparison) -> list[Item]:
    return [
        Item(
            one,
            f"quantiles-{index}",
            quantiles(one.robustness.normality, marks=comparison.marks)
            if one.robustness.normality
            else None,
            f"{one.group.title}, {one.pair.environment}: {QUANTILES}",
        )
        for index, one in enumerate(companions(comparison))
    ]
