"""Comparisons: their list, and one of them as a report whose sections are fetched when opened."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.access.rights import by_link, get_readable, get_readable_table
from dashboard.comparisons import bundle_views
from dashboard.comparisons.diagnosis import diagnose
from dashboard.comparisons.export_list import has_plan, list_exports
from dashboard.comparisons.extension_views import prepare_extension
from dashboard.comparisons.figure_files import list_printed_figures
from dashboard.comparisons.live_part import EMPTY, follow
from dashboard.comparisons.panel_base import has_folds
from dashboard.comparisons.sections import prepare_forest, prepare_sections
from dashboard.comparisons.study_choice import StudyChoice
from dashboard.comparisons.verdict_matrix import make_verdict_matrix
from dashboard.lists import ExperimentFilter, TableFilter, make_listing, read_picked_keys
from dashboard.live_parts import answer_news_only, keep_read, take_read
from dashboard.typed_requests import OpenRequest, Request
from experiments.access.permissions import may_change
from experiments.comparisons import ExperimentComparison, find_latest, read_latest
from experiments.comparisons.comparison_keys import identify_inputs
from experiments.comparisons.published_tables import compare_published
from experiments.execution.marked_experiments import find_experiment, measure_its_progress
from experiments.execution.progress import measure_progress
from experiments.models import Experiment, PublishedTable
from experiments.statistics.published.printed import TableError

SORTS = {"question": "question", "cluster": "cluster__name", "launched": "since_when"}
TABLE_SORTS = {"question": "question", "source": "source", "created": "created_at"}
PER_PAGE = 20
PARTS = ("live", "numbers")
"""What of a page is fetched anew while runs live: its head, and the numbers below it."""


@require_safe
def compare(request: Request) -> HttpResponse:
    """List what there is to compare; each row fetches its verdicts when it is seen."""
    if request.GET.get("tab") == "tables":
        return _compare_tables(request)
    filters = ExperimentFilter(request, leave_out=("state",))
    visible = Experiment.objects.visible_to(request.user).with_results().dated()
    picked = read_picked_keys(request.GET)
    chosen = visible.filter(pk__in=picked) if picked else filters.apply(visible)
    rows = chosen.select_related("cluster", "baseline")
    rows_shown = make_listing(request, rows, sorts=SORTS, default="-launched", per_page=PER_PAGE)
    context = {
        "listing": rows_shown,
        "filter": filters,
        "tab": "experiments",
        "picked": picked,
        "studies_query": StudyChoice(experiments=picked).make_query(),
    }
    return render(request, "comparisons/list.html", context)


def _compare_tables(request: Request) -> HttpResponse:
    filters = TableFilter(request)
    rows = filters.apply(PublishedTable.objects.visible_to(request.user)).select_related("owner")
    rows_shown = make_listing(
        request, rows, sorts=TABLE_SORTS, default="-created", per_page=PER_PAGE
    )
    context = {"listing": rows_shown, "filter": filters, "tab": "tables"}
    return render(request, "comparisons/list.html", context)


def _mark_live_part(request: OpenRequest, pk: int) -> str | None:
    if request.GET.get("part") != "live":
        return None
    row = find_experiment(request.user, pk)
    keep_read(request, row)
    return row and str(row.mark)


@by_link
@require_safe
@answer_news_only(_mark_live_part)
def comparison(request: OpenRequest, pk: int) -> HttpResponse:
    """Show a comparison; as a fragment a section, its live parts, or its verdicts in brief."""
    part = request.GET.get("part", "") if request.htmx else ""
    live_row, shown = take_read(request), request.GET.get("shown", "")
    if live_row and not shown.startswith(EMPTY):
        return _respond_live(request, live_row, shown)
    experiment = live_row or get_readable(request, pk)
    progress = measure_progress([experiment])[experiment.pk]
    comparison, latest = read_latest(experiment)
    following = follow(experiment, progress.tally, latest)
    if part == "live":
        if comparison.has_numbers:
            # The page says that there is nothing yet: all of it is another one now.
            return HttpResponse(headers={"HX-Refresh": "true"})
        if shown == EMPTY + following.shown:
            return HttpResponse(status=HTTPStatus.NO_CONTENT)
    context = {
        "experiment": experiment,
        "comparison": comparison,
        "matrix": make_verdict_matrix(comparison, planned_blocks=experiment.all_repeats),
        "tally": progress.tally,
        "status": progress.status,
        "following": following,
        "shown": following.shown if comparison.has_numbers else EMPTY + following.shown,
        "has_numbers": comparison.has_numbers,
    }
    return _respond(request, context, part)


def _respond_live(request: OpenRequest, experiment: Any, shown: str) -> HttpResponse:
    """Answer with what changes at every run; where the numbers are others, have these fetched."""
    progress = measure_its_progress(experiment)
    inputs = identify_inputs([experiment], {experiment.pk: experiment.run_counts})[experiment.pk]
    following = follow(experiment, progress.tally, find_latest(experiment, inputs))
    if shown == following.shown:
        return HttpResponse(status=HTTPStatus.NO_CONTENT)
    context = {
        "experiment": experiment,
        "tally": progress.tally,
        "status": progress.status,
        "following": following,
        "shown": following.shown,
        "has_numbers": True,
    }
    response = render(request, "comparisons/detail.html#live", context)
    if not following.has_same_numbers(shown):
        response["HX-Trigger"] = "newer-numbers"
    return response


@by_link
@require_safe
def table(request: OpenRequest, pk: int) -> HttpResponse:
    """Show the comparison of a published table; as a fragment, a section or its verdicts."""
    row = get_readable_table(request, pk)
    context: dict[str, Any] = {
        "table": row,
        "can_edit": may_change(request.user, row),
    }
    try:
        comparison = compare_published(row)
    except TableError as error:
        return render(request, "comparisons/unreadable.html", context | {"problem": str(error)})
    context |= {"comparison": comparison, "matrix": make_verdict_matrix(comparison)}
    return _respond(request, context, "")


def _respond(request: OpenRequest, context: dict[str, Any], part: str) -> HttpResponse:
    """Render what is asked of the comparison in `context`: the page or a part of it."""
    comparison = context["comparison"]
    is_part = request.htmx and not request.htmx.history_restore_request
    context["diagnosis"] = diagnose(comparison)
    if part in PARTS or not is_part:  # what shows the verdicts, and not a section or their list
        context["extension"] = prepare_extension(request, comparison)
    if part in PARTS:
        return render(request, f"comparisons/detail.html#{part}", context)
    if is_part and "section" not in request.GET:
        return render(request, "comparisons/brief.html", context)
    if comparison.has_numbers:
        context["sections"] = prepare_sections(comparison, request)
        context["folds"] = context["sections"].is_all and has_folds(comparison)
    if is_part:
        return render(request, "comparisons/detail.html#sections", context)
    if comparison.has_numbers:
        context["forest"], context["forest_plot"] = prepare_forest(comparison, request)
        figure = context["forest_plot"]
        context["is_long"] = bool(figure and figure.is_tall) and not context["sections"].is_all
        context["exports"] = list_exports(
            context.get("table") or context["experiment"],
            has_results=True,
            pages=figure.wide_pages if figure else 0,
            figures=list_printed_figures(
                comparison, [entry.name for entry in context["sections"].entries]
            ),
            configurations=len(comparison.groups),
            has_bundle=isinstance(comparison, ExperimentComparison)
            and bundle_views.is_offered(request.user, is_alive=comparison.stage.alive),
            has_authors=isinstance(comparison, ExperimentComparison)
            and bundle_views.has_authors(request.user, context["experiment"]),
            has_plan=isinstance(comparison, ExperimentComparison)
            and has_plan(request.user, context["experiment"]),
        )
    return render(request, "comparisons/detail.html", context)
