"""Comparisons: their list, and one of them with its plots."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard.access import by_link, readable
from dashboard.charts import Figure, Marks, Row, equivalence, forest, run_order, slopes, strip
from dashboard.filters import ExperimentFilter, listing
from dashboard.matrix import matrix
from dashboard.methods import methods
from dashboard.requests import OpenRequest, Request
from experiments.comparisons import Comparison, Group, compare_experiment
from experiments.models import Experiment

SORTS = {"question": "question", "cluster": "cluster__name", "launched": "launched_at"}
PER_PAGE = 20

STRIP = "Every run; the tick is the median. A click on a point opens its run."
SLOPES = (
    "Each line is a block, from the baseline to the environment: parallel lines are one effect."
)
ORDER = "The same runs in the order in which they began: drift would show here."
EQUIVALENCE = (
    "What another margin would have said: each curve crosses 5 % at the smallest margin that "
    "these runs prove, which stands beside its name."
)


@require_GET
def compare(request: Request) -> HttpResponse:
    """Experiments that have something to compare; each row fetches its verdicts when it is seen."""
    filters = ExperimentFilter(request, leave_out=("state",))
    visible = Experiment.objects.visible_to(request.user).with_results()
    rows = filters.apply(visible).select_related("cluster", "baseline")
    found = listing(request, rows, sorts=SORTS, default="-launched", per_page=PER_PAGE)
    return render(request, "comparisons/list.html", {"listing": found, "filter": filters})


@by_link
@require_GET
def comparison(request: OpenRequest, pk: int) -> HttpResponse:
    """One comparison; as a fragment, its verdicts in brief."""
    experiment = readable(request, pk)
    found = compare_experiment(experiment)
    context: dict[str, Any] = {"experiment": experiment, "comparison": found}
    if request.htmx:
        return render(request, "comparisons/brief.html", context)
    context |= _figures(found) | {"tally": matrix(experiment).tally}
    return render(request, "comparisons/detail.html", context)


def _figures(found: Comparison) -> dict[str, Any]:
    """Return the forest plot of all pairs, and for each group its runs as points."""
    marks = {row.name: index for index, row in enumerate(found.environments)}
    rows = [Row(_title(group), pair) for group in found.groups for pair in group.pairs]
    return {
        "marks": marks,
        "methods": methods(found),
        "has_samples": any(group.samples for group in found.groups),
        "forest": forest(rows, margin=found.experiment.margin, marks=marks) if rows else None,
        "groups": [
            _group(group, marks, index, found.experiment)
            for index, group in enumerate(found.groups)
        ],
    }


def _title(group: Group) -> str:
    return f"{group.workload.name} · {group.scale} · {group.metric.name}"


def _group(group: Group, marks: Marks, index: int, experiment: Experiment) -> dict[str, Any]:
    """Return each plot of a group with its id and what it says."""
    words: dict[str, Any] = {
        "unit": group.metric.unit,
        "metric": group.metric.label.lower(),
        "marks": marks,
    }
    figures: list[tuple[str, Figure, str]] = []
    if group.samples:
        figures.append((f"strip-{index}", strip(group.samples, **words), STRIP))
    if any(pair.n_blocks for pair in group.pairs):
        figures.append((f"slopes-{index}", slopes(group.samples, **words), SLOPES))
    if group.samples:
        figures.append((f"order-{index}", run_order(group.samples, **words), ORDER))
    if any(pair.smallest_margin is not None for pair in group.pairs):
        curve = equivalence(group.pairs, margin=experiment.margin, marks=marks)
        figures.append((f"equivalence-{index}", curve, EQUIVALENCE))
    return {"title": _title(group), "group": group, "figures": figures}
