"""The panel of other tests beside a comparison: fetched on demand, as it may take seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.access.hidden_names import find_hiding
from dashboard.access.rights import by_link, get_readable, get_readable_table
from dashboard.charts import Figure, draw_quantiles
from dashboard.comparisons.comparison_addresses import make_page_address
from dashboard.comparisons.printed_figures import describe_companions
from dashboard.comparisons.shown_figures import ShownFigure, make_figure_address
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import Comparison, read_latest
from experiments.comparisons.companions import Companions, compute_companions
from experiments.comparisons.kept_companions import read_companions
from experiments.comparisons.published_tables import compare_published
from experiments.statistics.published.printed import TableError

QUANTILES = (
    "along the line, the logs are normally distributed; a bend or a straggler shows at once."
)


@dataclass(frozen=True)
class Item:
    """The other tests of one pair, with a plot that shows whether its values look normal."""

    companions: Companions
    id: str
    figure: Figure | None
    caption: str


@by_link
@require_safe
def robustness(request: OpenRequest, pk: int) -> HttpResponse:
    """Show the other tests of an experiment; as a fragment, the panel that replaces its link."""
    experiment = get_readable(request, pk)
    comparison, latest = read_latest(experiment)
    companions = read_companions(pk, comparison, latest.key if latest.row else "")
    return _page(request, comparison, companions, {"experiment": experiment, "latest": latest})


@by_link
@require_safe
def of_table(request: OpenRequest, pk: int) -> HttpResponse:
    """Show the other tests of a published table's single runs."""
    row = get_readable_table(request, pk)
    try:
        comparison = compare_published(row)
        return _page(request, comparison, compute_companions(comparison), {"table": row})
    except TableError as error:
        raise Http404(str(error)) from error


def _page(
    request: OpenRequest,
    comparison: Comparison,
    companions: list[Companions],
    context: dict[str, Any],
) -> HttpResponse:
    template = "comparisons/robustness.html" + ("#panel" if request.htmx else "")
    items = _items(comparison, companions)
    context |= {
        "comparison": comparison,
        "comparison_address": make_page_address(comparison, "comparison", "table"),
        "items": items,
        "figure": _show_figure(request, comparison, items),
    }
    return render(request, template, context)


def _show_figure(
    request: OpenRequest, comparison: Comparison, items: list[Item]
) -> ShownFigure | None:
    """Return the printed figure of all pairs that have runs enough."""
    companions = [item.companions for item in items]
    described = describe_companions(companions, comparison.marks, find_hiding(request.user))
    if described is None:
        return None
    return ShownFigure(described, make_figure_address(comparison, "robustness"))


def _items(comparison: Comparison, companions: list[Companions]) -> list[Item]:
    return [
        Item(
            companion,
            f"quantiles-{index}",
            draw_quantiles(companion.robustness.normality, marks=comparison.marks)
            if companion.robustness.normality
            else None,
            f"{companion.group.heading}, {companion.pair.environment}: {QUANTILES}",
        )
        for index, companion in enumerate(companions)
    ]
