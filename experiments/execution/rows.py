"""The queries of a visit for jobs and operations by state, without their large columns."""

from __future__ import annotations

from django.db.models import Prefetch, QuerySet

from experiments.execution.lease import Lease
from experiments.execution.operations import make_operation_handle
from experiments.execution.specs import name_job_directory
from experiments.models import Experiment, Job, Operation
from runners.jobs import JobSpec, Resources

# Large columns of an image. A visit reads them only to send an operation.
IMAGE_FACTS = tuple(f"staged_image__image__{name}" for name in ("facts", "packages", "recipe"))

FOLLOWED = (
    *("uid", "state", "attempt", "scheduler_id", "scheduler_state", "directory"),
    *("journal_offset", "cancel_requested_at", "cancel_sent_at", "started_at", "cluster"),
    "expected_start_at",
)
"""Columns of live rows that a visit reads each time."""


def list_jobs(held: Lease, *states: str) -> QuerySet[Job]:
    """Return the held cluster's jobs in these states, in the order of their keys.

    Jobs of one experiment share its row, and all have the held cluster's: to make one for each
    takes longer than reading them.
    """
    experiments = Experiment.objects.select_related("partition").defer("plan")
    return (
        held.cluster.jobs.filter(state__in=states)
        .prefetch_related(Prefetch("experiment", experiments), "workload")
        .defer("script")
        .order_by("pk")
    )


def list_operations(held: Lease, *states: str) -> QuerySet[Operation]:
    """Return the held cluster's operations in these states, in the order of their keys."""
    return (
        held.cluster.operations.filter(state__in=states)
        .select_related("partition", "staged_image__image")
        .defer("script", "output_tail", "result", *IMAGE_FACTS)
        .order_by("pk")
    )


def list_rows(held: Lease, *states: str) -> list[Job | Operation]:
    """Return operations and jobs; operations first, because experiments wait for them."""
    return [*list_operations(held, *states), *list_jobs(held, *states)]


def find_states(held: Lease, *states: str) -> frozenset[str]:
    """Return those of `states` in which the held cluster has jobs or operations."""
    jobs, operations = (
        model._default_manager.filter(cluster=held.cluster, state__in=states)
        .order_by()
        .values_list("state")
        for model in (Job, Operation)
    )
    return frozenset(state for (state,) in jobs.union(operations))


def list_followed(held: Lease) -> list[Job | Operation]:
    """Return the held cluster's rows that the scheduler is asked about, with what is asked of it.

    As `list_rows`, but without rows beside them: there may be thousands of jobs.
    """
    waiting = {"cluster": held.cluster, "state__in": (Job.State.QUEUED, Job.State.RUNNING)}
    rows = [
        *Operation.objects.filter(**waiting).only(*FOLLOWED).order_by("pk"),
        *Job.objects.filter(**waiting).only(*FOLLOWED, "experiment").order_by("pk"),
    ]
    for row in rows:
        row.cluster = held.cluster
    return rows


def make_handle(row: Job | Operation) -> JobSpec:
    """Return the specification with which the runner finds a job or an operation again."""
    if isinstance(row, Operation):
        return make_operation_handle(row)
    directory = row.directory or name_job_directory(row)
    return JobSpec(
        row.uid, row.name, directory, runs=(), resources=Resources(time_limit_seconds=60)
    )
