"""Comparisons: their list, and one of them with its plots."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from dashboard.access.rights import by_link, readable, readable_table
from dashboard.comparisons.anatomy import panels
from dashboard.comparisons.figures import overall, scaling_panels, sections
from dashboard.comparisons.methods import methods
from dashboard.lists import ExperimentFilter, TableFilter, listing
from dashboard.typed_requests import OpenRequest, Request
from experiments.access.permissions import may_change
from experiments.comparisons import Comparison, compare_experiment
from experiments.comparisons.accuracies import accuracies
from experiments.comparisons.anatomy import anatomies
from experiments.comparisons.companions import worth_asking
from experiments.comparisons.published_tables import compare_published
from experiments.comparisons.scales import scalings
from experiments.comparisons.step_spreads import steadiness_of
from experiments.execution.progress import progress_of
from experiments.models import Experiment, PublishedTable
from experiments.statistics.published.printed import TableError
from experiments.statistics.scaling import Batch

SORTS = {"question": "question", "cluster": "cluster__name", "launched": "since_when"}
TABLE_SORTS = {"question": "question", "source": "source", "created": "created_at"}
PER_PAGE = 20
MOST_OPEN = 4
"""Groups whose plots and tables are seen at once; where there are more, each is opened by who wants
it, and on paper all are."""
BATCHES: dict[str, Batch] = {"strong": "total", "weak": "per GPU"}
EXPORTS = (
    ("Comparison, CSV", "comparison_csv"),
    ("Comparison, JSON", "comparison_json"),
    ("Comparison, LaTeX", "comparison_tex"),
    ("Runs, CSV", "runs_csv"),
    ("Runs, JSON", "runs_json"),
)
TABLE_EXPORTS = (
    ("Comparison, CSV", "table_csv"),
    ("Comparison, JSON", "table_json"),
    ("Comparison, LaTeX", "table_tex"),
    ("The table as given", "table_text"),
)


@require_GET
def compare(request: Request) -> HttpResponse:
    """What there is to compare; each row fetches its verdicts when it is seen."""
    if request.GET.get("tab") == "tables":
        return _compare_tables(request)
    filters = ExperimentFilter(request, leave_out=("state",))
    visible = Experiment.objects.visible_to(request.user).with_results().dated()
    rows = filters.apply(visible).select_related("cluster", "baseline")
    found = listing(request, rows, sorts=SORTS, default="-launched", per_page=PER_PAGE)
    context = {"listing": found, "filter": filters, "tab": "experiments"}
    return render(request, "comparisons/list.html", context)


def _compare_tables(request: Request) -> HttpResponse:
    filters = TableFilter(request)
    rows = filters.apply(PublishedTable.objects.visible_to(request.user)).select_related("owner")
    found = listing(request, rows, sorts=TABLE_SORTS, default="-created", per_page=PER_PAGE)
    context = {"listing": found, "filter": filters, "tab": "tables"}
    return render(request, "comparisons/list.html", context)


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
    progress = progress_of([experiment])[experiment.pk]
    context |= {"tally": progress.tally, "status": progress.status, "exports": exports}
    context["robustness"] = worth_asking(found) and reverse("robustness", args=[pk])
    context["accuracies"] = accuracies(found)
    context["steadiness"] = steadiness_of(found)
    context["anatomy"] = panels(anatomies(found))
    return render(request, "comparisons/detail.html", context | shown(found, request))


@by_link
@require_GET
def table(request: OpenRequest, pk: int) -> HttpResponse:
    """The comparison of a published table; as a fragment, its verdicts in brief."""
    row = readable_table(request, pk)
    context: dict[str, Any] = {
        "table": row,
        "can_edit": may_change(request.user, row),
    }
    try:
        found = compare_published(row)
    except TableError as error:
        return render(request, "comparisons/unreadable.html", context | {"problem": str(error)})
    context["comparison"] = found
    if request.htmx:
        return render(request, "comparisons/brief.html", context)
    exports = [(words, reverse(name, args=[pk])) for words, name in TABLE_EXPORTS]
    context |= shown(found, request) | {"exports": exports}
    context["robustness"] = worth_asking(found) and reverse("table_robustness", args=[pk])
    return render(request, "comparisons/detail.html", context)


def shown(found: Comparison, request: OpenRequest) -> dict[str, Any]:
    """Return what the page shows of any comparison beside its numbers.

    `scaling` in the address says what nobody else has said: strong or weak.
    """
    batch = BATCHES.get(request.GET.get("scaling", ""), "")
    return {
        "overall": overall(found),
        "scalings": scaling_panels(scalings(found, batch=batch), found.marks),
        "told_scaling": bool(batch),
        "sections": sections(found),
        "folds": len(found.groups) > MOST_OPEN,
        "most_open": MOST_OPEN,
        "methods": methods(found),
    }
