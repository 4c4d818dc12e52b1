"""Comparisons: their list, and one of them with its plots."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard.access.rights import by_link, get_readable, get_readable_table
from dashboard.comparisons.panels import compute_panels, has_folds
from dashboard.lists import ExperimentFilter, TableFilter, make_listing
from dashboard.typed_requests import OpenRequest, Request
from experiments.access.permissions import may_change
from experiments.comparisons import compare_experiment
from experiments.comparisons.published_tables import compare_published
from experiments.execution.progress import measure_progress
from experiments.models import Experiment, PublishedTable
from experiments.statistics.published.printed import TableError

SORTS = {"question": "question", "cluster": "cluster__name", "launched": "since_when"}
TABLE_SORTS = {"question": "question", "source": "source", "created": "created_at"}
PER_PAGE = 20


@require_GET
def compare(request: Request) -> HttpResponse:
    """List what there is to compare; each row fetches its verdicts when it is seen."""
    if request.GET.get("tab") == "tables":
        return _compare_tables(request)
    filters = ExperimentFilter(request, leave_out=("state",))
    visible = Experiment.objects.visible_to(request.user).with_results().dated()
    rows = filters.apply(visible).select_related("cluster", "baseline")
    rows_shown = make_listing(request, rows, sorts=SORTS, default="-launched", per_page=PER_PAGE)
    context = {"listing": rows_shown, "filter": filters, "tab": "experiments"}
    return render(request, "comparisons/list.html", context)


def _compare_tables(request: Request) -> HttpResponse:
    filters = TableFilter(request)
    rows = filters.apply(PublishedTable.objects.visible_to(request.user)).select_related("owner")
    rows_shown = make_listing(
        request, rows, sorts=TABLE_SORTS, default="-created", per_page=PER_PAGE
    )
    context = {"listing": rows_shown, "filter": filters, "tab": "tables"}
    return render(request, "comparisons/list.html", context)


@by_link
@require_GET
def comparison(request: OpenRequest, pk: int) -> HttpResponse:
    """Show a comparison; as a fragment, its verdicts in brief."""
    experiment = get_readable(request, pk)
    context: dict[str, Any] = {
        "experiment": experiment,
        "comparison": compare_experiment(experiment),
    }
    if request.htmx:
        return render(request, "comparisons/brief.html", context)
    progress = measure_progress([experiment])[experiment.pk]
    context |= {"tally": progress.tally, "status": progress.status}
    return _with_panels(request, context)


@by_link
@require_GET
def table(request: OpenRequest, pk: int) -> HttpResponse:
    """Show the comparison of a published table; as a fragment, its verdicts in brief."""
    row = get_readable_table(request, pk)
    context: dict[str, Any] = {
        "table": row,
        "can_edit": may_change(request.user, row),
    }
    try:
        context["comparison"] = compare_published(row)
    except TableError as error:
        return render(request, "comparisons/unreadable.html", context | {"problem": str(error)})
    if request.htmx:
        return render(request, "comparisons/brief.html", context)
    return _with_panels(request, context)


def _with_panels(request: OpenRequest, context: dict[str, Any]) -> HttpResponse:
    """Render the page of the comparison in `context` with its panels."""
    comparison = context["comparison"]
    panels = list(compute_panels(comparison, request)) if comparison.has_numbers else []
    context |= {"panels": panels, "folds": has_folds(comparison)}
    return render(request, "comparisons/detail.html", context)
