"""Which planned rows a visit sends, and in which order.

When the site refuses a job for now, a pause is stored. It holds back all rows that the site would
refuse for the same reason; only a pause of the whole site ends the visit's sending.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, OuterRef, QuerySet

from experiments.clusters.pauses import exclude_held, is_held
from experiments.execution.guard import contain_failure
from experiments.execution.lease import Lease
from experiments.execution.limits import count_submissions_left, find_gpu_seconds_left
from experiments.execution.node_spreading import exclude_waiting_for_node
from experiments.execution.operations import is_due
from experiments.execution.rows import list_jobs, list_operations
from experiments.execution.submitting import (
    CANCELLED_BEFORE,
    SendingPaused,
    end_without_sending,
    refuse,
    send_alone,
    send_portion,
)
from experiments.models import Experiment, Job, Operation, Pause
from experiments.models.database_time import database_now
from runners.runner import Runner

MOST_REFUSALS = 10
"""After as many refusals a visit sends nothing more, however many experiments still wait."""
PORTION = 50
"""As many jobs are sent together; before the next, what has changed on the cluster is looked at."""
FIRST_PORTION = 10
"""As many are sent first in a visit: the cluster has something to do while the others are sent."""


@dataclass
class Sending:
    """The rows and pauses that the site has refused in this visit: none is tried twice."""

    held: Lease
    runner: Runner
    began: datetime
    sent_back: set[str] = field(default_factory=set)  # uids
    refused_by: set[int] = field(default_factory=set)  # keys of pauses
    portion: int = FIRST_PORTION  # of jobs, to be sent next


def send_planned(
    held: Lease, runner: Runner, look_after: Callable[[], object], deadline: float
) -> bool:
    """Send planned rows, their owners in turns, up to the cluster's limit of live jobs.

    Then try one row of each pause that is due: if the site takes it, the pause ends. Between
    portions `look_after` looks after the live jobs. Return whether more could be sent when
    `deadline`, by `time.monotonic`, was over: the next visit goes on. Raises SendingPaused where
    the whole site takes no jobs now.
    """
    for row in _list_cancelled(held):
        with contain_failure(row, row.cluster):
            end_without_sending(row, "cancelled", CANCELLED_BEFORE, Job.State.CANCELLED)
    visit = Sending(held, runner, database_now())
    rows = _next_rows(visit)
    while rows:
        _send_until_refused(visit, rows)
        visit.portion = PORTION
        if any(row.state == row.State.QUEUED for row in rows):
            held.note_change()
        rows = _next_rows(visit) if len(visit.refused_by) < MOST_REFUSALS else []
        if rows and time.monotonic() > deadline:
            return True
        if rows:
            look_after()
    return False


def _list_cancelled(held: Lease) -> list[Job | Operation]:
    """Return the planned rows that have been cancelled."""
    operations = list_operations(held, Operation.State.PLANNED).exclude(cancel_requested_at=None)
    jobs = list_jobs(held, Job.State.PLANNED).exclude(experiment__cancelled_at=None)
    return [*operations, *jobs]


def _next_rows(visit: Sending) -> list[Job | Operation]:
    """Return the rows that no pause holds back; if there are none, one row of a due pause."""
    pauses = list(visit.held.cluster.pauses.order_by("retry_at", "pk"))
    if rows := _rows_to_send(visit, pauses):
        return rows
    due = [row for row in pauses if row.retry_at <= visit.began and row.pk not in visit.refused_by]
    waiting = [row for row in pauses if row not in due]
    for pause in due:
        if rows := _rows_to_send(visit, waiting, under=pause):
            return rows[:1]
        if not (
            pause.jobs.exists() or list_operations(visit.held, Operation.State.PLANNED).exists()
        ):
            pause.delete()  # it holds nothing back
    return []


def _rows_to_send(
    visit: Sending, pauses: Sequence[Pause], *, under: Pause | None = None
) -> list[Job | Operation]:
    """Return the rows to send now: as many as the limit allows of those that no pause holds back.

    With `under`, of those that this pause holds back.
    """
    held = visit.held
    free = _count_free(held)
    gpu_seconds = find_gpu_seconds_left(held.cluster) if free else 0
    may_be_sent = list_jobs(held, Job.State.PLANNED).filter(
        experiment__cancelled_at=None, experiment__paused_at=None
    )
    planned = exclude_waiting_for_node(exclude_held(may_be_sent, pauses))
    operations = [
        row for row in list_operations(held, Operation.State.PLANNED) if not is_held(row, pauses)
    ]
    if under:
        planned = planned.filter(pk__in=under.jobs.values("pk"))
        operations = [row for row in operations if is_held(row, [under])]
    if gpu_seconds is not None:
        planned = planned.filter(gpu_seconds__lte=max(gpu_seconds, 0))
    may_go = planned.exclude(uid__in=visit.sent_back)
    in_order = take_turns(may_go, min(free, visit.portion, PORTION))
    new = [row for row in operations if row.uid not in visit.sent_back and _is_due_operation(row)]
    jobs = cut_to_gpu_seconds(in_order, gpu_seconds)
    rows: list[Job | Operation] = [*new, *jobs]
    return rows[:free]


def _count_free(held: Lease) -> int:
    """Return how many rows the limits of live jobs and of submissions a minute allow now.

    Where people carry the jobs, all of them are handed out at once.
    """
    if held.cluster.is_by_hand:
        return PORTION
    live = list_jobs(held, *Job.LIVE).count() + list_operations(held, *Job.LIVE).count()
    free = max(held.cluster.max_live_jobs - live, 0)
    left = count_submissions_left(held.cluster) if free else None
    return free if left is None else min(free, left)


def cut_to_gpu_seconds(jobs: Iterable[Job], left: float | None) -> list[Job]:
    """Leave out the jobs for which, with those before them, there is not enough GPU time left."""
    chosen = []
    for job in jobs:
        if left is None or job.gpu_seconds <= left or not job.gpu_seconds:
            chosen.append(job)
            left = None if left is None else left - job.gpu_seconds
    return chosen


def take_turns(planned: QuerySet[Job], most: int) -> list[Job]:
    """Return the `most` planned jobs to send first, in their order: owners of experiments in turns.

    So a person with thousands of jobs keeps nobody waiting. Of each owner the experiment that was
    launched first comes first, in its plan's order.
    """
    if most < 1:
        return []
    of_experiment = planned.filter(experiment=OuterRef("pk")).order_by("block", "pk").values("pk")
    # The first of each experiment alone: to sort tens of thousands for each portion takes longer
    # than to send it.
    experiments = (
        Experiment.objects.filter(Exists(of_experiment))
        .annotate(first=ArraySubquery(of_experiment[:most]))
        .order_by("launched_at", "pk")
    )
    taken: Counter[int] = Counter()  # of each owner
    places: dict[int, tuple[int, int, int]] = {}
    for launched, (owner, first) in enumerate(experiments.values_list("owner", "first")):
        for pk in first[: most - taken[owner]]:
            places[pk] = taken[owner], launched, pk
            taken[owner] += 1
    keys = sorted(places, key=places.__getitem__)[:most]
    return sorted(planned.filter(pk__in=keys), key=lambda job: places[job.pk])


def _send_until_refused(visit: Sending, rows: Sequence[Job | Operation]) -> None:
    """Send `rows` until the site refuses one: its pause may hold back others of them.

    Raises SendingPaused where the site refuses all jobs.
    """
    try:
        for operation in rows:
            if isinstance(operation, Operation):
                visit.held.renew()
                visit.sent_back.add(operation.uid)
                send_alone(operation, visit.runner)
        if jobs := [row for row in rows if isinstance(row, Job)]:
            visit.held.renew()
            send_portion(jobs, visit.runner)
            if all(job.state == Job.State.PLANNED for job in jobs):  # whatever keeps them
                visit.sent_back |= {job.uid for job in jobs}
    except SendingPaused as error:
        if error.pause.is_of_the_site:
            raise
        visit.refused_by.add(error.pause.pk)
        visit.sent_back.add(error.uid)


def _is_due_operation(operation: Operation) -> bool:
    with contain_failure(operation, operation.cluster, partial(refuse, operation)):
        return is_due(operation)
    return False
