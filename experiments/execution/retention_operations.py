"""The operation that removes directories of jobs by the rule of their cluster, and who plans it.

It is chosen which ones when the operation is sent, under locks on their jobs and experiments: what
was pinned before is not among them. What is pinned afterwards ends an operation that still waits
or removes, by the next visit.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import PurePosixPath

from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils import timezone

from experiments.execution.lease import Lease
from experiments.execution.operations import (
    KINDS,
    NotPossible,
    OperationKind,
    Work,
    name_operation_directory,
)
from experiments.execution.retention import list_due, list_removable
from experiments.models import Cluster, Event, Job, Operation, Removal
from runners.payload import hash_payload
from runners.records import Record
from runners.removals import MOST_AT_A_TIME, Outcome, plan_removal, read_outcome
from runners.runner import Runner
from runners.untrusted import Damaged

LOOKED_FOR = timedelta(hours=1)
"""How long after one search for old directories the next one follows."""
CLEAN_UP_INTERVAL = timedelta(days=1)
"""The pause between two operations that are not full: each takes a node for a moment."""
REMOVAL_SECONDS = 3600
INTERRUPTED = "It was ended before it was done. What was not removed is chosen again, if it may go."


def plan_removals(held: Lease, runner: Runner) -> None:
    """Plan an operation if the rule of the cluster asks for one; end one that must not go on."""
    cluster = held.cluster
    if cluster.retention_days is None and cluster.removal_checked_at is None:
        return  # it has never had a rule
    alive = cluster.operations.filter(kind=Operation.Kind.CLEAN_UP).exclude(
        state__in=Operation.FINAL
    )
    if operation := alive.only("pk", "cancel_requested_at").first():
        _end_if_held(cluster, operation)
        return
    now = timezone.now()
    checked_at = cluster.removal_checked_at
    if cluster.retention_days is None or (checked_at and now - checked_at < LOOKED_FOR):
        return
    Cluster.objects.filter(pk=cluster.pk).update(removal_checked_at=now)
    count = list_due(cluster)[:MOST_AT_A_TIME].count()
    recent = cluster.operations.filter(
        kind=Operation.Kind.CLEAN_UP, requested_at__gt=now - CLEAN_UP_INTERVAL
    )
    if not count or (count < MOST_AT_A_TIME and recent.exists()):
        return
    try:
        with transaction.atomic():
            Operation.objects.create(
                kind=Operation.Kind.CLEAN_UP, cluster=cluster, owner_id=cluster.owner_id
            )
    except IntegrityError:  # another visit was faster
        return


def _end_if_held(cluster: Cluster, operation: Operation) -> None:
    """Ask for the end of an operation if one of its directories is to stay meanwhile."""
    if operation.cancel_requested_at:
        return
    chosen = Removal.objects.under_way().filter(operation=operation)
    current = Cluster.objects.get(pk=cluster.pk)
    # Of these alone: there may be 100,000 others.
    may_go = list_removable(current).filter(pk__in=chosen.values("job"))
    if chosen.exclude(job__in=may_go.values("pk")).exists():
        request_end(operation)


def request_end(operation: Operation) -> None:
    """Have the next visit end an operation."""
    rows = Operation.objects.filter(pk=operation.pk, cancel_requested_at=None)
    rows.exclude(state__in=Operation.FINAL).update(cancel_requested_at=Now())


class CleanUp(OperationKind):
    """Remove job directories that the rule of their cluster does not keep any longer."""

    def work(self, operation: Operation) -> Work:
        jobs = _choose(operation)
        if not jobs:
            raise NotPossible("There is nothing to remove any more.")
        cluster = Cluster.objects.get(pk=operation.cluster_id)
        steps, files = plan_removal(
            cluster.work_directory,
            [PurePosixPath(job.directory).name for job in jobs],
            operation.directory or name_operation_directory(operation),
            hash_payload(),
            cluster.retention_days or 0,
        )
        return Work(steps, files=files, seconds=REMOVAL_SECONDS)

    def finish(self, operation: Operation, problem: str, record: Record) -> str:
        try:
            outcome = read_outcome(record.result)
        except Damaged as damage:
            problem = problem or f"What was removed cannot be read: {damage}."
            outcome = Outcome({}, frozenset(), {})
        rows = Removal.objects.under_way().filter(operation=operation)
        chosen = list(rows.select_for_update(of=("self",)).select_related("job").order_by("pk"))
        _keep_outcomes(chosen, outcome)
        if len(chosen) == MOST_AT_A_TIME and not problem:  # there may be more
            Cluster.objects.filter(pk=operation.cluster_id).update(removal_checked_at=None)
        return INTERRUPTED if operation.cancel_requested_at and problem else problem


def _choose(operation: Operation) -> list[Job]:
    """Return the jobs whose directories are removed, and note that they are being removed.

    An earlier choice of the same operation may be on its way: what it named stays noted.
    """
    with transaction.atomic():
        cluster = Cluster.objects.get(pk=operation.cluster_id)
        due = (
            list_due(cluster)
            .select_related("experiment")
            .only(*("uid", "attempt", "directory", "experiment__pinned_at"))
        )
        # Whoever pins an experiment, or wants files of a job, waits for this, or is first.
        locked = due.select_for_update(of=("self", "experiment"), no_key=True)
        keys = [job.pk for job in locked[:MOST_AT_A_TIME]]
        # Again: that statement saw the files and links of before it had to wait.
        jobs = list(due.filter(pk__in=keys))
        now = timezone.now()
        Removal.objects.bulk_create(
            (
                Removal(
                    job=job,
                    attempt=job.attempt,
                    directory=job.directory,
                    days=cluster.retention_days or 0,
                    operation=operation,
                    chosen_at=now,
                )
                for job in jobs
            ),
            update_conflicts=True,
            unique_fields=["job", "attempt"],
            update_fields=["days", "operation", "chosen_at", "problem"],
        )
    return jobs


def _keep_outcomes(chosen: list[Removal], outcome: Outcome) -> None:
    """Store what became of each directory. Those of which nothing is known are free again."""
    now = timezone.now()
    known, events = [], []
    for row in chosen:
        name = PurePosixPath(row.directory).name
        if name in outcome.freed_bytes or name in outcome.gone:
            row.removed_at, row.freed_bytes = now, outcome.freed_bytes.get(name)
            why = row.sentence
            events.append(
                Event(
                    experiment_id=row.job.experiment_id,
                    job_id=row.job_id,
                    what="files removed from the cluster",
                    why=why,
                )
            )
        elif name in outcome.problems:
            row.problem = outcome.problems[name]
        else:
            continue
        known.append(row)
    Removal.objects.bulk_update(known, ["removed_at", "freed_bytes", "problem"])
    Removal.objects.filter(pk__in={row.pk for row in chosen} - {row.pk for row in known}).delete()
    Event.objects.bulk_create(events)


KINDS[Operation.Kind.CLEAN_UP] = CleanUp()
