"""The panel of other tests beside a comparison: fetched on demand, for it takes its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard.access.rights import by_link, readable, readable_table
from dashboard.charts import Figure, quantiles
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import Comparison, compare_experiment
from experiments.comparisons.companions import Companions, companions
from experiments.comparisons.published_tables import compare_published
from experiments.statistics.published.printed import TableError

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
    return _page(request, found, {"experiment": experiment})


@by_link
@require_GET
def of_table(request: OpenRequest, pk: int) -> HttpResponse:
    """The same of a published table's single runs."""
    row = readable_table(request, pk)
    try:
        return _page(request, compare_published(row), {"table": row})
    except TableError as error:
        raise Http404(str(error)) from error


def _page(request: OpenRequest, found: Comparison, context: dict[str, Any]) -> HttpResponse:
    template = "comparisons/robustness.html" + ("#panel" if request.htmx else "")
    return render(request, template, context | {"comparison": found, "items": _items(found)})


def _items(comparison: Comparison) -> list[Item]:
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
