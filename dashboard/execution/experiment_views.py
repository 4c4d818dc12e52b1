"""One experiment, while it runs and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import Case, Prefetch, Q, QuerySet, Value, When
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.access.rights import by_link, get_readable
from dashboard.comparisons import bundle_views
from dashboard.comparisons.export_list import has_plan, list_draft_exports, list_exports
from dashboard.comparisons.printed_figures import FIGURES
from dashboard.execution.experiment_parts import (
    DETAILS,
    LIVE,
    SEEN,
    choose_part,
    finish_answer,
    is_behind,
    mark_live_part,
    mark_seen,
    read_paces_for_part,
    read_stage_for_part,
)
from dashboard.execution.experiment_rows import draw_matrix_rows, draw_run_rows
from dashboard.execution.matrix import Matrix, Pace, build_matrix, estimate_seconds_left
from dashboard.execution.verdict_panel import OfferedFigures, ShownComparison
from dashboard.lists import Listing, Sorts, make_listing
from dashboard.live_parts import answer_news_only, take_read
from dashboard.software.parity_views import prepare_report
from dashboard.typed_requests import OpenRequest
from experiments.access.permissions import may_change
from experiments.access.viewing import may_view
from experiments.citations import describe_citation
from experiments.clusters.pauses import list_pauses
from experiments.clusters.preflights import find_last_if_red, why_not_check
from experiments.comparisons.comparison_keys import identify_inputs
from experiments.execution import experiment_pauses, unsent_jobs
from experiments.execution.further_attempts import find_attempts_of_jobs
from experiments.execution.marked_experiments import measure_its_progress
from experiments.execution.overdue_visits import find_overdue_visit
from experiments.execution.progress import Progress, explain_waiting, measure_progress
from experiments.execution.queue_places import watch_queue
from experiments.execution.related_experiments import find_related
from experiments.models import Experiment, Job, Recurrence, RecurringExperiment, Run
from experiments.natural_columns import pad_numbers, pad_workload
from experiments.software.frozen_parity import describe_known_differences, read_frozen
from experiments.software.parity_reports import list_own_programs

TABS = ("runs", "jobs", "plan", "events")
IMPORTED_TABS = ("runs", "plan", "events")
"""Runs that were imported had no jobs of ours."""
RUN_SORTS: Sorts = {
    "place": "job__block",
    "workload": pad_workload("workload"),
    "scale": pad_numbers("scale"),
    "environment": pad_numbers("environment__name"),
    "repeat": "repeat",
    "state": "state",
    "node": pad_numbers("node"),
    "began": "began_at",
}
NOT_IN_THE_LIST = (
    *("spec", "command", "output_tail", "phases", "job__script"),
    *("workload__parameters", "environment__binds", "environment__variables"),
)
"""Columns of runs and of what belongs to them that are long, and that the list does not show."""
FAILURES_SHOWN = 5
COPIES_SHOWN = 5


@by_link
@require_safe
@answer_news_only(mark_live_part)
def experiment(request: OpenRequest, pk: int) -> HttpResponse:
    """Show one experiment; its two parts are fetched anew until all runs have ended."""
    part = choose_part(request)
    asked_tab = request.GET.get("tab", "runs")
    live_row = take_read(request)
    row: Any = live_row or get_readable(request, pk, with_plan=asked_tab == "plan" and part != LIVE)
    # Of the whole page; the second part of one that has ended is not fetched any more.
    inputs = None if part or row.is_draft else identify_inputs([row])[row.pk]
    run_matrix = None if part == LIVE else build_matrix(row, inputs)
    counts = {row.pk: run_matrix.tally.states} if run_matrix else None
    progress = measure_its_progress(row) if live_row else measure_progress([row], counts)[row.pk]
    stage = read_stage_for_part(row, progress, part, inputs)
    tabs = IMPORTED_TABS if row.imported_at else TABS
    seen = mark_seen(row, progress)
    behind = part == LIVE and is_behind(request.headers.get(SEEN, ""), row, progress)
    context: dict[str, Any] = {
        "experiment": row,
        "tally": progress.tally,
        "status": progress.status,
        "stage": stage,
        "can_edit": may_change(request.user, row),
        "tab": asked_tab if asked_tab in tabs else "runs",
        "tabs": tabs,
        "seen": seen,
        "details_behind": behind and progress.tally.total,
    }
    shown = None
    if part != DETAILS:
        if bundle_views.has_authors(request.user, row):
            context["cited"] = describe_citation(row)
        paces = run_matrix.paces if run_matrix else None
        context |= _prepare_state(request, row, progress, paces)
        if live_row:
            context["finished_runs"] = row.finished_runs
            has_related = bool(row.is_source or row.copied_from_id or row.reproduces_id)
            recurs = row.recurs
        else:
            context["finished_runs"] = _count_finished_runs(row, progress)
            has_related, recurs = find_related(row)
        context |= _read_copies(request, row, has_related=has_related, recurs=recurs)
        if progress.tally.succeeded and any(stage.judgements):
            if live_row:
                inputs = identify_inputs([row], {row.pk: row.run_counts})[row.pk]
            shown = ShownComparison(row, inputs)
            context["verdicts"] = shown
    if run_matrix:
        context |= _prepare_details(request, row, run_matrix, progress, context)
    if not part and not row.is_draft:
        figures = shown.list_figures(request) if shown else OfferedFigures(0, (), 0)
        context["exports"] = list_exports(
            row,
            has_results=bool(progress.tally.succeeded),
            pages=figures.pages,
            figures=[FIGURES[name] for name in figures.names],
            configurations=figures.configurations,
            has_bundle=bundle_views.is_offered(request.user, is_alive=progress.tally.alive),
            has_authors=bundle_views.has_authors(request.user, row),
            has_plan=has_plan(request.user, row),
        )
    elif not part and has_plan(request.user, row):
        context["exports"] = list_draft_exports(row.pk)
    fragment = {"": "", LIVE: "#live", DETAILS: "#details"}[part]
    response = render(request, f"execution/detail.html{fragment}", context)
    return finish_answer(response, part, seen=seen, details_behind=context["details_behind"])


def _prepare_state(
    request: OpenRequest, row: Experiment, progress: Progress, paces: Sequence[Pace] | None
) -> dict[str, Any]:
    """Return what the first part shows of an experiment's state, but for its verdicts."""
    tally, planned_jobs = progress.tally, progress.jobs[Job.State.PLANNED]
    if paces is None:
        paces = read_paces_for_part(row, progress) if tally.alive else ()
    context: dict[str, Any] = {
        "planned_jobs": planned_jobs,
        # Those of a paused experiment wait for a person, not for the cluster.
        "waiting_jobs": 0 if row.paused_at else planned_jobs,
        "live_jobs": sum(progress.jobs[state] for state in Job.LIVE),
        "carried_jobs": progress.jobs[Job.State.QUEUED] if row.cluster.is_by_hand else 0,
        "waiting": explain_waiting(row, progress.jobs, request.user) if row.launched_at else [],
        "seconds_left": estimate_seconds_left(
            paces,
            at_once=progress.jobs[Job.State.RUNNING],
            cooldown_seconds=row.cooldown_seconds,
        ),
        "red": find_last_if_red(row.cluster) if row.is_draft else None,
        "pauses": [
            (pause, pause.jobs.filter(experiment=row).count())
            for pause in (list_pauses(row) if planned_jobs else [])
        ],
    }
    if context["waiting_jobs"] or context["live_jobs"]:
        context["overdue_since"] = find_overdue_visit(row, timezone.now())
    if row.paused_at:
        context["paused_by"] = experiment_pauses.find_person(row)
    if context["pauses"] or row.cluster.retry_at:
        may_try = request.user.is_authenticated and not why_not_check(row.cluster, request.user)
        context["may_try"] = may_try
    return context


def _count_finished_runs(row: Experiment, progress: Progress) -> int:
    """Return how many runs have finished and wait for the rest of their job."""
    if not progress.tally.states[Run.State.RUNNING]:
        return 0
    return row.runs.filter(state=Run.State.RUNNING, ended_at__isnull=False).count()


def _prepare_details(
    request: OpenRequest,
    row: Experiment,
    run_matrix: Matrix,
    progress: Progress,
    shown: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what the second part shows; `shown` is what both parts know."""
    has_failed, stage = bool(progress.tally.failed), shown["stage"]
    context: dict[str, Any] = {
        "matrix": run_matrix,
        "matrix_rows": draw_matrix_rows(run_matrix, row),
        "marks": {environment.name: mark for environment, mark in run_matrix.environments},
        "failed": list(_failed(row)[:FAILURES_SHOWN]) if has_failed else [],
        "unsent": unsent_jobs.list_unsent_jobs(row, stage).count()
        if has_failed and progress.jobs[Job.State.FAILED]
        else 0,
        "attempts": {},
    }
    context |= _tab(request, row, shown["tab"], progress) | prepare_report(row)
    if shown["tab"] == "runs" and not row.is_draft:
        page = context["listing"].page
        has_places = not row.imported_at
        context["run_rows"] = draw_run_rows(page, context["marks"], has_places=has_places)
    if shown["can_edit"]:
        jobs = {run.job_id for run in context["failed"]}
        if shown["tab"] == "jobs":
            jobs |= {job.pk for job in context["listing"].page}
        context["attempts"] = find_attempts_of_jobs(jobs, stage) if jobs else {}
    return context


def _failed(row: Experiment) -> QuerySet[Run]:
    failed = row.runs.filter(state=Run.State.FAILED).select_related(
        "workload", "environment", "job"
    )
    failed = failed.defer("job__script", "spec", "command", "output_tail")
    return failed.order_by("-ended_at", "pk")


def _read_copies(
    request: OpenRequest, row: Experiment, *, has_related: bool, recurs: bool
) -> dict[str, Any]:
    """Return what the experiment is a copy of, and its copies, as far as they may be viewed."""
    related = _list_related(request, row) if has_related else []
    by_key = {other.pk: other for other in related}
    copies = [other for other in related if other.copied_from_id == row.pk]
    reproductions = [other for other in related if other.reproduces_id == row.pk]
    recurrences: Iterable[Recurrence] = ()
    if recurs and request.user.is_authenticated and row.launched_at:
        recurring = RecurringExperiment.objects.visible_to(request.user)
        rows = row.recurrences.filter(recurring__in=recurring.values("pk"))
        recurrences = rows.select_related("recurring")[:COPIES_SHOWN]
    return {
        "recurrences": recurrences,
        "copied_from": by_key.get(row.copied_from_id or 0),
        "reproduces": by_key.get(row.reproduces_id or 0),
        "reproductions": reproductions[:COPIES_SHOWN],
        "copies": copies[:COPIES_SHOWN],
        "has_more_copies": len(copies) > COPIES_SHOWN,
    }


def _list_related(request: OpenRequest, row: Experiment) -> list[Experiment]:
    is_source = Q(pk__in=[row.copied_from_id or 0, row.reproduces_id or 0])
    is_related = is_source | Q(copied_from=row.pk) | Q(reproduces=row.pk)
    rows = Experiment.objects.visible_to(request.user).filter(is_related)
    source_first = Case(When(is_source, then=Value(0)), default=Value(1))
    narrow = rows.only("question", "copied_from", "reproduces")
    return list(narrow.order_by(source_first, "-pk")[: 2 * COPIES_SHOWN + 3])


def _tab(request: OpenRequest, row: Experiment, tab: str, progress: Progress) -> dict[str, Any]:
    """Return the rows of one tab, a page of them."""
    if tab == "runs":
        runs = row.runs.select_related("workload", "environment", "job")
        state = request.GET.get("state", "")
        state = state if state in Run.State else ""
        if state:
            runs = runs.filter(state=state)
        count = progress.tally.states[state] if state else progress.tally.total
        listing = make_listing(
            request,
            runs.defer(*NOT_IN_THE_LIST),
            sorts=RUN_SORTS,
            default="place",
            count=count,
            keys_first=True,
        )
        return {"listing": listing, "only_state": state}
    if tab == "jobs":
        jobs = row.jobs.select_related("workload", "repairs").defer("script", "repairs__script")
        return {
            "listing": _list_jobs(request, jobs, progress),
            **_read_queue(request, row, progress),
        }
    if tab == "plan":
        runs = Run.objects.select_related("environment")
        runs = runs.only("uid", "job", "position", "experiment", "environment__name")
        jobs = row.jobs.select_related("workload").prefetch_related(Prefetch("runs", runs))
        own = bool(list_own_programs(row))
        parity = [
            (name, report | {"known": describe_known_differences(report, own_program=own)})
            for name, report in read_frozen(row).items()
        ]
        return {"listing": _list_jobs(request, jobs, progress), "parity": parity}
    events = row.events.select_related("actor", "job", "run")
    return {"listing": make_listing(request, events, sorts={"at": "at"}, default="-at")}


def _read_queue(request: OpenRequest, row: Experiment, progress: Progress) -> dict[str, Any]:
    """Return the queue in which jobs of the experiment wait, as it was last asked for.

    Visitors with a link see the jobs, and nothing is asked of a cluster for them.
    """
    if not progress.jobs[Job.State.QUEUED] or not request.user.is_authenticated:
        return {"queue": None}
    queue = watch_queue(row, row.cluster)
    is_readable = queue is not None and may_view(request.user, row.cluster)
    return {"queue": queue, "readable_clusters": {row.cluster_id} if is_readable else set()}


def _list_jobs(request: OpenRequest, jobs: QuerySet[Job], progress: Progress) -> Listing:
    count = progress.jobs.total()
    return make_listing(request, jobs, sorts={"block": "block"}, default="block", count=count)
