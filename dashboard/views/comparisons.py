"""Comparisons: their list, and one of them with its plots."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from dashboard.access import by_link, readable
from dashboard.figures import overall, sections
from dashboard.filters import ExperimentFilter, listing
from dashboard.matrix import Tally
from dashboard.methods import methods
from dashboard.requests import OpenRequest, Request
from experiments.comparisons import Comparison, compare_experiment
from experiments.models import Experiment

SORTS = {"question": "question", "cluster": "cluster__name", "launched": "launched_at"}
PER_PAGE = 20
EXPORTS = (
    ("Comparison, CSV", "comparison_csv"),
    ("Comparison, JSON", "comparison_json"),
    ("Comparison, LaTeX", "comparison_tex"),
    ("Runs, CSV", "runs_csv"),
    ("Runs, JSON", "runs_json"),
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
    exports = [(words, reverse(name, args=[pk])) for words, name in EXPORTS]
    context |= {"tally": Tally(found.states), "exports": exports}
    return render(request, "comparisons/detail.html", context | shown(found))


def shown(found: Comparison) -> dict[str, Any]:
    """Return what the page shows of any comparison beside its numbers."""
    return {"overall": overall(found), "sections": sections(found), "methods": methods(found)}
