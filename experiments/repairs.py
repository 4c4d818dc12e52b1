"""Blocks of which some runs never began: a new job runs those, and nothing that has begun."""

from __future__ import annotations

from django.db import transaction
from django.db.models import QuerySet

from experiments.comparisons import TRIED_AGAIN
from experiments.comparisons.stages import stage_of
from experiments.further_attempts import further_attempts
from experiments.lifecycle import RUN_ANEW, move, record
from experiments.models import Job, Run, User
from experiments.models.states import NOT_STARTED

REPAIRED = "block repaired"


def missing_runs(job: Job) -> QuerySet[Run]:
    """Return the runs of a job that ended before they began."""
    return job.runs.filter(state=Run.State.FAILED, reason=NOT_STARTED)


def node_of(job: Job) -> str:
    """Return the node on which the runs of a job ran; empty if none of them has named it."""
    named = job.runs.exclude(node="").order_by("position")
    return named.values_list("node", flat=True).first() or ""


def repair(job: Job, by: User, *, same_node: bool) -> Job | None:
    """Plan a job for what is missing of a block, in the order of the first; None if it may not be.

    Runs that have begun stay with the first job, whatever they gave. A verdict that could be read
    before is stamped, as when a job is tried again.
    """
    with transaction.atomic():
        first = Job.objects.select_for_update().defer("script").get(pk=job.pk)
        if not further_attempts(first).missing:
            return None
        stage = stage_of(first.experiment)
        node = node_of(first) if same_node else ""
        runs = list(missing_runs(first).order_by("position"))
        second = Job.objects.create(
            experiment_id=first.experiment_id,
            cluster_id=first.cluster_id,
            workload_id=first.workload_id,
            scale=first.scale,
            repeat=first.repeat,
            block=first.block,
            payload_hash=first.payload_hash,
            repairs=first,
            node=node,
        )
        where = f"on {node}" if node else "on any node"
        names = ", ".join(str(run.environment) for run in runs)
        record(
            first.experiment,
            REPAIRED,
            job=second,
            why=f"{names}: never began in {first} and will be run {where}, in this order",
            by=by,
        )
        if not stage.alive and stage.states[Run.State.SUCCEEDED]:
            record(first.experiment, TRIED_AGAIN, job=second, by=by)
        for run in runs:
            move(run, Run.State.PLANNED, why=f"in {second}", by=by, job=second, **RUN_ANEW)
    return second
