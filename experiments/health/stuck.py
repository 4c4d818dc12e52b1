"""What does not go on, and why: each kind with what to do, and its oldest rows with their pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet, Value
from django.urls import reverse

from experiments.execution.limits import find_holds
from experiments.execution.read_attempts import MOST_ATTEMPTS
from experiments.models import (
    CheckReport,
    Cluster,
    ConnectionTest,
    Experiment,
    HostKey,
    ImageImport,
    Job,
    Operation,
    Pause,
    RunFile,
    StagedImage,
)
from experiments.models.cluster import CONNECTION_LIMIT
from experiments.models.images import SILENCE

MOST_SHOWN = 10  # rows of a kind
LONGEST = timedelta(minutes=10)  # in which a job is submitted or collected
LONGEST_CANCEL = timedelta(minutes=10)
LONGEST_WAIT = timedelta(minutes=1)  # until somebody begins what a person has asked for
RECENT = timedelta(days=14)
FAILURES = 2  # of visits in a row; one alone is over in seconds

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


@dataclass(frozen=True)
class Row:
    """Something that does not go on, with its page."""

    text: str
    url: str
    since: datetime | None
    details: str = ""


@dataclass(frozen=True)
class Stuck:
    """Rows that do not go on for one reason."""

    title: str
    advice: str
    count: int
    rows: tuple[Row, ...]

    @property
    def more(self) -> int:
        """Return how many there are beside the rows that are shown."""
        return self.count - len(self.rows)


def list_stuck(now: datetime) -> list[Stuck]:
    """Return all that does not go on by itself, or only when a site lets it."""
    kinds: tuple[Callable[[datetime], Sequence[Kind | Stuck]], ...] = (
        _list_submitting,
        _list_collecting,
        _list_unreadable,
        _list_not_cancelled,
        _list_switched_off,
        _list_failing_clusters,
        _list_pauses,
        _list_paused_experiments,
        _list_limits,
        _list_silent_transfers,
        _list_unvisited,
    )
    entries = [entry for list_entries in kinds for entry in list_entries(now)]
    present = _find_present([entry for entry in entries if isinstance(entry, Kind)])
    all_stuck = (
        entry if isinstance(entry, Stuck) else entry.read()
        for entry in entries
        if isinstance(entry, Stuck) or id(entry) in present
    )
    return [stuck for stuck in all_stuck if stuck.count]


@dataclass(frozen=True)
class Kind:
    """One reason for which rows do not go on, and how they are found."""

    title: str
    advice: str
    rows: QuerySet[Any]
    describe: Callable[[Any], Row]

    def read(self) -> Stuck:
        """Return the first rows, and how many there are; one statement where there are few."""
        shown = [self.describe(row) for row in self.rows[: MOST_SHOWN + 1]]
        count = len(shown) if len(shown) <= MOST_SHOWN else self.rows.order_by().count()
        return Stuck(self.title, self.advice, count, tuple(shown[:MOST_SHOWN]))


def _find_present(kinds: Sequence[Kind]) -> set[int]:
    """Return the identities of the kinds of which there are rows: mostly none, in one statement."""
    queries = [
        kind.rows.order_by().annotate(place=Value(place)).values_list("place")[:1]
        for place, kind in enumerate(kinds)
    ]
    return {id(kinds[place]) for (place,) in queries[0].union(*queries[1:], all=True)}


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


def _list_submitting(now: datetime) -> list[Kind]:
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


def _list_collecting(now: datetime) -> list[Kind]:
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


def _list_unreadable(now: datetime) -> list[Kind]:
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


def _list_not_cancelled(now: datetime) -> list[Kind]:
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


def _list_switched_off(now: datetime) -> list[Kind]:
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


def _list_failing_clusters(now: datetime) -> list[Kind]:
    live = Job.objects.filter(cluster=OuterRef("pk")).exclude(state__in=Job.FINAL)
    failing = (
        Cluster.objects.filter(Exists(live), enabled=True, failures__gte=FAILURES)
        .exclude(last_error="")
        .exclude(last_error_kind=CONNECTION_LIMIT)
    )
    return [
        Kind(
            "Clusters with jobs whose last visits failed",
            "Tare asks again by itself, later each time; the list of visits below says when. "
            "Nothing of their jobs is lost.",
            failing.only("name", "last_error", "last_error_kind", "last_seen_at").order_by("name"),
            lambda row: Row(
                f"{row}: {row.trouble}",
                reverse("cluster", args=[row.pk]),
                row.last_seen_at,
                row.last_error,
            ),
        )
    ]


def _list_pauses(now: datetime) -> list[Kind]:
    pauses = Pause.objects.select_related("cluster", "partition", "experiment").only(
        "kind",
        "message",
        "since",
        "retry_at",
        "cluster__name",
        "partition__name",
        "experiment__question",
    )

    def describe(pause: Pause) -> Row:
        if pause.experiment:
            place = f"{pause.cluster}, {pause.experiment.question}"
        elif pause.partition:
            place = f"{pause.cluster}, partition {pause.partition.name}"
        else:
            place = str(pause.cluster)
        url = reverse("cluster", args=[pause.cluster_id])
        return Row(f"{place}: {pause.kind}", url, pause.since, pause.message)

    return [
        Kind(
            "Pauses: a site takes no jobs for now",
            "Tare tries again by itself. When the cause is gone, Try again now on the cluster’s "
            "page does so at once.",
            pauses.order_by("since", "pk"),
            describe,
        )
    ]


def _list_paused_experiments(now: datetime) -> list[Kind]:
    planned = Job.objects.filter(experiment=OuterRef("pk"), state=Job.State.PLANNED)
    paused = Experiment.objects.filter(Exists(planned), paused_at__isnull=False)
    return [
        Kind(
            "Experiments that a person has paused",
            "Their jobs wait until somebody presses Continue on the experiment’s page; its events "
            "say who paused it.",
            paused.select_related("cluster")
            .only("question", "paused_at", "cluster__name")
            .order_by("paused_at", "pk"),
            lambda row: Row(
                f"{row.cluster}, {row.question}", row.get_absolute_url(), row.paused_at
            ),
        )
    ]


def _list_limits(now: datetime) -> list[Stuck]:
    """Return the clusters whose own limits keep jobs waiting for longer than a minute."""
    planned = Job.objects.filter(cluster=OuterRef("pk"), state=Job.State.PLANNED)
    limited = Cluster.objects.filter(
        Exists(planned),
        Q(max_gpu_hours_per_month__isnull=False) | Q(last_error_kind=CONNECTION_LIMIT),
        enabled=True,
    ).order_by("name")
    clusters = list(
        limited.only(
            *("name", "max_gpu_hours_per_month", "max_submissions_per_minute"),
            *("last_error", "last_error_kind"),
        )
    )
    holds = find_holds(clusters, now)
    rows = []
    for row in clusters:
        texts = [hold.text for hold in holds[row.pk] if hold.kind == "GPU-hours"]
        if row.last_error_kind == CONNECTION_LIMIT:
            texts.append(row.last_error)
        rows += [Row(text.rstrip("."), reverse("cluster", args=[row.pk]), None) for text in texts]
    return [
        Stuck(
            "Limits of clusters that jobs wait for",
            "They go on by themselves at the time that is named. Whoever may change the cluster "
            "can raise its limits.",
            len(rows),
            tuple(rows[:MOST_SHOWN]),
        )
    ]


def _list_silent_transfers(now: datetime) -> list[Kind]:
    silent = now - SILENCE
    advice = "The worker of the queue bulk that had it has died: the next free one takes it up."
    images = StagedImage.objects.to_be_sent().filter(sending_at__lt=silent)
    imports = ImageImport.objects.filter(
        state=ImageImport.State.UNDER_WAY, seen_at__lt=silent
    ).exclude(kind__in=ImageImport.BUILT)
    copies = RunFile.objects.to_be_copied().filter(seen_at__lt=silent)
    return [
        Kind(
            "Images whose sending fell silent",
            advice,
            images.select_related("image", "cluster")
            .only("sending_at", "image__reference", "cluster__name")
            .order_by("sending_at", "pk"),
            lambda row: Row(
                f"{row.image} to {row.cluster}",
                reverse("image", args=[row.image_id]),
                row.sending_at,
            ),
        ),
        Kind(
            "Image imports that fell silent",
            advice,
            imports.only("reference", "seen_at", "kind").order_by("seen_at", "pk"),
            lambda row: Row(
                str(row.reference) or f"import {row.pk}", reverse("catalogue"), row.seen_at
            ),
        ),
        Kind(
            "Copies of files of runs that fell silent",
            advice,
            copies.select_related("run").only("path", "seen_at", "run__uid").order_by("seen_at"),
            lambda row: Row(row.path, reverse("run", args=[row.run.uid]), row.seen_at),
        ),
    ]


def _list_unvisited(now: datetime) -> list[Kind]:
    """Return the checks, host keys and connection tests that a person waits for."""
    kinds = ((CheckReport, "Checks"), (HostKey, "Host keys"), (ConnectionTest, "Connection tests"))
    return [
        Kind(
            f"{name} that somebody asked for and nobody has begun",
            "A worker begins them within seconds; the clock asks again for ten minutes.",
            model._default_manager.filter(
                began_at=None, ended_at=None, requested_at__lt=now - LONGEST_WAIT
            )
            .select_related("cluster")
            .only("requested_at", "cluster__name")
            .order_by("requested_at"),
            lambda row: Row(
                str(row.cluster), reverse("cluster", args=[row.cluster_id]), row.requested_at
            ),
        )
        for model, name in kinds
    ]
