"""Pauses: nothing is sent while a site refuses jobs for now. Rows and rules, no network.

A pause holds back the jobs that the site would refuse for the same reason. When it is due, one of
them is tried; once one is accepted, the pause ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from experiments.access import audit
from experiments.clusters.back_offs import ASKED
from experiments.models import Experiment, Job, Operation, Pause, User
from experiments.models.database_time import database_now
from runners.errors import Kind, Scope


def hold(
    row: Job | Operation, message: str, *, kind: Kind, scope: Scope, details: str = ""
) -> Pause:
    """Store or prolong the pause of all that the site would refuse likewise, and return it."""
    columns = _columns_of(row, scope)
    now = database_now()
    pause = Pause.objects.filter(cluster=row.cluster, **columns).first()
    if pause is None:
        pause = Pause(cluster=row.cluster, since=now, failures=0, **columns)
    pause.failures += 1
    pause.kind = kind
    pause.message = message
    pause.details = details
    wait = timedelta(seconds=row.cluster.poll_seconds) * 2 ** min(pause.failures - 1, 12)
    pause.retry_at = now + min(wait, Pause.LONGEST)
    pause.save()
    return pause


def _columns_of(row: Job | Operation, scope: Scope) -> dict[str, int | None]:
    """Return the columns that say what a pause holds back."""
    partition_pk, experiment_pk = _keys(row)
    if scope == "partition" and partition_pk:
        return {"partition_id": partition_pk, "experiment_id": None}
    if scope == "site" or experiment_pk is None:
        return {"partition_id": None, "experiment_id": None}
    return {"partition_id": None, "experiment_id": experiment_pk}


def _keys(row: Job | Operation) -> tuple[int | None, int | None]:
    """Return the primary keys of a row's partition and experiment."""
    if isinstance(row, Job):
        return row.experiment.partition_id, row.experiment_id
    partition = row.asked_partition()
    return (partition.pk if partition else None), None


def is_held(row: Job | Operation, pauses: Sequence[Pause]) -> bool:
    """Return whether one of `pauses` keeps `row` from being sent."""
    if not pauses:
        return False
    partition_pk, experiment_pk = _keys(row)
    return any(
        pause.holds(partition_pk=partition_pk, experiment_pk=experiment_pk) for pause in pauses
    )


def exclude_held(jobs: QuerySet[Job], pauses: Sequence[Pause]) -> QuerySet[Job]:
    """Leave out jobs that one of `pauses` holds back."""
    if any(pause.partition_id is None and pause.experiment_id is None for pause in pauses):
        return jobs.none()
    return jobs.exclude(
        experiment__in=[pause.experiment_id for pause in pauses if pause.experiment_id]
    ).exclude(
        experiment__partition__in=[pause.partition_id for pause in pauses if pause.partition_id]
    )


def end_pauses(row: Job | Operation) -> None:
    """End the pauses that held `row` back, because it was accepted."""
    partition_pk, experiment_pk = _keys(row)
    for pause in Pause.objects.filter(cluster=row.cluster):
        if pause.holds(partition_pk=partition_pk, experiment_pk=experiment_pk):
            pause.delete()


def try_now(pause: Pause, by: User) -> None:
    """Have the next visit try again, and let the waiting times begin anew."""
    with transaction.atomic():
        Pause.objects.filter(pk=pause.pk).update(retry_at=Now(), failures=0)
        audit.note(by, ASKED, pause.cluster, why=f"pause: {pause.kind}")


def list_paused_keys(experiments: Iterable[Experiment]) -> set[int]:
    """Return the keys of the experiments whose planned jobs a pause holds back. One query."""
    keys = [row.pk for row in experiments]
    if not keys:
        return set()
    holding = Pause.objects.filter(
        Q(partition=None, experiment=None)
        | Q(partition=OuterRef("partition"))
        | Q(experiment=OuterRef("pk")),
        cluster=OuterRef("cluster"),
    )
    planned = Job.objects.filter(experiment=OuterRef("pk"), state=Job.State.PLANNED)
    rows = Experiment.objects.filter(pk__in=keys)
    return set(rows.filter(Exists(holding), Exists(planned)).values_list("pk", flat=True))


def list_pauses(experiment: Experiment) -> list[Pause]:
    """Return the pauses that hold back planned jobs of `experiment`; none if none are planned."""
    if not experiment.jobs.filter(state=Job.State.PLANNED).exists():
        return []
    return list(Pause.objects.holding(experiment).select_related("partition", "cluster"))
