"""Jobs and operations that do not go on: not submitted, still in a queue, or not collected."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django.db.models import F, Max, Q, QuerySet
from django.urls import reverse

from experiments.execution.read_attempts import MOST_ATTEMPTS
from experiments.health.stuck_kinds import Kind, Row
from experiments.models import Job, Operation

LONGEST = timedelta(minutes=10)  # in which a job is submitted or collected
LONGEST_CANCEL = timedelta(minutes=10)
RECENT = timedelta(days=14)

PAUSED_BY_A_PERSON = Q(state=Job.State.PLANNED, experiment__paused_at__isnull=False)

JOB_COLUMNS = (
    "uid",
    "state",
    "cluster_id",
    "experiment_id",
    "gone_at",
    "cancel_requested_at",
    "collecting_tried_at",
)


def _jobs() -> QuerySet[Job]:
    return Job.objects.select_related("cluster", "experiment").only(
        *JOB_COLUMNS, "cluster__name", "experiment__question"
    )


def _operations() -> QuerySet[Operation]:
    return Operation.objects.select_related("cluster").only(
        "uid", "state", "kind", "cluster__name", "requested_at", "gone_at", "cancel_requested_at"
    )


def _describe_job(since: str) -> Callable[[Job], Row]:
    return lambda job: Row(
        f"{job} on {job.cluster}: {job.experiment.question}",
        f"{reverse('experiment', args=[job.experiment_id])}?tab=jobs",
        getattr(job, since),
    )


def _describe_operation(since: str) -> Callable[[Operation], Row]:
    return lambda operation: Row(
        f"operation {operation.pk} ({operation.get_kind_display()}) on {operation.cluster}",
        reverse("operation", args=[operation.pk]),
        getattr(operation, since),
    )


def list_submitting(now: datetime) -> list[Kind]:
    """Return the jobs and operations that are being submitted for too long."""
    minutes = LONGEST.total_seconds() / 60
    title = f"submitting for more than {minutes:.0f} min"
    advice = (
        "Each visit asks the cluster whether it has them, and sends those that it has not. If the "
        "cluster is visited and they stay, read its page and the worker’s log."
    )
    jobs = (
        _jobs()
        .filter(state=Job.State.SUBMITTING)
        .annotate(since=Max("events__at"))
        .filter(Q(since__lt=now - LONGEST) | Q(since=None))
        .order_by("since", "pk")
    )
    operations = (
        _operations()
        .filter(state=Operation.State.SUBMITTING, requested_at__lt=now - LONGEST)
        .order_by("requested_at", "pk")
    )
    return [
        Kind(f"Jobs {title}", advice, jobs, _describe_job("since")),
        Kind(f"Operations {title}", advice, operations, _describe_operation("requested_at")),
    ]


def list_collecting(now: datetime) -> list[Kind]:
    """Return the jobs and operations whose files are not collected."""
    minutes = LONGEST.total_seconds() / 60
    title = f"left the queue more than {minutes:.0f} min ago and are not collected"
    advice = (
        "Their files are read at each visit: see on the cluster’s page whether it is visited and "
        "what its last error says. Large files take long; none is lost."
    )
    waiting = {"state": Job.State.COLLECTING, "gone_at__lt": now - LONGEST}
    return [
        Kind(
            f"Jobs that {title}",
            advice,
            _jobs().filter(**waiting).order_by("gone_at", "pk"),
            _describe_job("gone_at"),
        ),
        Kind(
            f"Operations that {title}",
            advice,
            _operations().filter(**waiting).order_by("gone_at", "pk"),
            _describe_operation("gone_at"),
        ),
    ]


def list_unreadable(now: datetime) -> list[Kind]:
    """Return the jobs over whose files workers died."""
    jobs = (
        _jobs()
        .filter(collecting_attempts__gte=MOST_ATTEMPTS, collecting_tried_at__gt=now - RECENT)
        .order_by("-collecting_tried_at", "pk")
    )
    return [
        Kind(
            f"Jobs over whose files a worker died {MOST_ATTEMPTS} times",
            "They are left alone. Look at the files on the cluster, give the worker more memory if "
            "they are right, then press Collect again among the experiment’s jobs.",
            jobs,
            _describe_job("collecting_tried_at"),
        )
    ]


def list_not_cancelled(now: datetime) -> list[Kind]:
    """Return the jobs that were to be cancelled and are still in a queue."""
    jobs = (
        _jobs()
        .filter(
            state__in=(Job.State.QUEUED, Job.State.RUNNING),
            cancel_requested_at__lt=now - LONGEST_CANCEL,
        )
        .order_by("cancel_requested_at", "pk")
    )
    return [
        Kind(
            "Jobs that were to be cancelled and are still in the queue",
            "Each visit asks the scheduler to cancel them. If it does not, cancel them on the "
            "cluster by hand: Tare notices.",
            jobs,
            _describe_job("cancel_requested_at"),
        )
    ]


def list_switched_off(now: datetime) -> list[Kind]:
    """Return the jobs on clusters that are not in service."""
    jobs = (
        _jobs()
        .exclude(state__in=Job.FINAL)
        .filter(cluster__enabled=False)
        .exclude(PAUSED_BY_A_PERSON)
        .annotate(since=F("submitted_at"))
        .order_by("pk")
    )
    return [
        Kind(
            "Jobs on clusters that are not in service",
            "Nobody visits these clusters: enable them in the administration, or cancel the "
            "experiments.",
            jobs,
            _describe_job("since"),
        )
    ]
