"""The state of a run for its page, and the live part of that page while the run has not ended.

The live part is asked for every few seconds, so it reads no more than it shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from dashboard.environment_symbols import find_symbol
from dashboard.execution.live_run import describe_live_run
from dashboard.execution.node_samples import describe_live_use
from dashboard.execution.run_facts import (
    Trace,
    draw_traces,
    list_measurements,
    list_missing_measurements,
    list_phases,
)
from dashboard.execution.segment_panel import describe_segments
from dashboard.typed_requests import OpenRequest
from experiments.access.permissions import may_change
from experiments.access.viewing import may_view
from experiments.execution.further_attempts import MAY_CHANGE, find_attempts_of_jobs
from experiments.execution.live_readings import watch
from experiments.execution.overdue_visits import find_overdue_visit
from experiments.execution.progress import explain_hold
from experiments.execution.queue_places import watch_queue
from experiments.execution.removed_files import find_removal
from experiments.models import Event, Job, Run
from experiments.models.compiled_rows import KEY, OTHER_KEY, CompiledRows
from experiments.planning.interim import read_stage
from experiments.planning.workloads import describe_parameters

MOST_TRACES, FIRST_TRACES = 4, 2
"""Series that are seen at once; of more, the first ones, and the others by who opens them."""


def _select_events(job: int, run: int) -> QuerySet[Event]:
    shown = ("at", "what", "why", "stated_by", "job", "actor__username", "run__uid")
    rows = Event.objects.filter(Q(run=None) | Q(run=run), job=job)
    return rows.select_related("actor", "run").only(*shown)


MOST_ROWS = 200
"""Measurements and parameters of a run that its page lists; files have all."""
EVENTS = CompiledRows(_select_events, KEY, OTHER_KEY)


def choose_seen(traces: Sequence[Trace]) -> dict[str, Sequence[Trace]]:
    """Return which of a run's traces are seen at once, and which ones are folded."""
    seen = len(traces) if len(traces) <= MOST_TRACES else FIRST_TRACES
    return {"traces": traces[:seen], "more_traces": traces[seen:]}


def prepare_live_part(request: OpenRequest, row: Any) -> dict[str, Any]:
    """Return what the live part shows of a run that has not ended, as `find_run` has read it."""
    cluster, job = row.job.cluster, row.job
    if row.experiment.cluster_id == cluster.pk:
        row.experiment.cluster = cluster  # it is not read once more
    events = EVENTS.read(job.pk, row.pk)
    for event in events:
        event.job = job
    is_readable = request.user.is_authenticated and may_view(request.user, cluster)
    mark = find_symbol(row.experiment, row.environment_id, row.numbered_environments)
    context = {
        "mark": mark,
        "phases": list_phases(row),
        "events": events,
        "readable_clusters": {cluster.pk} if is_readable else set(),
    }
    if row.has_series:
        context |= choose_seen(draw_traces(row, mark))
    if row.has_measurements:
        context["measurements"] = list_measurements(row)
        context["missing_measurements"] = list_missing_measurements(row)
    if job.is_final and (removal := find_removal(job)):
        context["removal"] = removal
    return context | describe_state(request, row)


def describe_state(request: OpenRequest, row: Run) -> dict[str, Any]:
    """Return what every form of the page says of a run: its state, and what may be done with it."""
    parameters = describe_parameters(row.spec.get("workload", {}))
    given = [(name, text) for name, text in parameters if text != "none"]
    unset = [name for name, text in parameters if text == "none"]
    context: dict[str, Any] = {
        "run": row,
        "experiment": row.experiment,
        "parameters": given[:MOST_ROWS],
        "more_parameters": max(0, len(given) - MOST_ROWS),
        "unset_parameters": unset[:MOST_ROWS],
        "more_unset": max(0, len(unset) - MOST_ROWS),
        "most_rows": MOST_ROWS,
        "segments": describe_segments(row),
        "can_edit": may_change(request.user, row.experiment),
        "may": None,
    }
    if row.state == Run.State.PLANNED and row.job.state == Job.State.PLANNED:
        context["hold"] = explain_hold(row.experiment)
    if not row.is_final:
        context |= {
            "overdue_since": find_overdue_visit(row.experiment, timezone.now()),
            "waiting_jobs": int(row.job.state == Job.State.PLANNED),
            "live_jobs": int(row.job.state in Job.LIVE),
        }
    # Visitors with a link see the run, and nothing is fetched from a cluster for them.
    if row.state == Run.State.RUNNING and request.user.is_authenticated:
        reading = watch(row)
        context["live"] = describe_live_run(row, reading)
        context["node"] = describe_live_use(row, reading)
    if row.job.state == Job.State.QUEUED and request.user.is_authenticated:
        queue = watch_queue(row.experiment, row.job.cluster)
        context |= {"queue": queue, "place": queue.find_place(row.job) if queue else ""}
    if context["can_edit"] and row.state in MAY_CHANGE:
        may = find_attempts_of_jobs([row.job_id], read_stage(row.experiment))
        context["may"] = may.get(row.job_id)
    return context
