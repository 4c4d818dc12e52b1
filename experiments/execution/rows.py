"""The queries of a visit for jobs and operations by state, without their large columns."""

from __future__ import annotations

from django.db.models import QuerySet

from experiments.execution.lease import Lease
from experiments.execution.operations import operation_handle
from experiments.execution.specs import job_spec
from experiments.models import Job, Operation
from runners.jobs import JobSpec

# Large columns of an image. A visit reads them only to send an operation.
IMAGE_FACTS = tuple(f"staged_image__image__{name}" for name in ("facts", "packages", "recipe"))


def jobs_in(held: Lease, *states: str) -> QuerySet[Job]:
    return (
        Job.objects.filter(cluster=held.cluster, state__in=states)
        .select_related("experiment__partition", "workload", "cluster")
        .defer("script", "experiment__plan")
        .order_by("pk")
    )


def operations_in(held: Lease, *states: str) -> QuerySet[Operation]:
    return (
        Operation.objects.filter(cluster=held.cluster, state__in=states)
        .select_related("cluster", "partition", "staged_image__image")
        .defer("script", "output_tail", "result", *IMAGE_FACTS)
        .order_by("pk")
    )


def rows_in(held: Lease, *states: str) -> list[Job | Operation]:
    """Return operations and jobs; operations first, because experiments wait for them."""
    return [*operations_in(held, *states), *jobs_in(held, *states)]


def handle_of(row: Job | Operation) -> JobSpec:
    return job_spec(row) if isinstance(row, Job) else operation_handle(row)
