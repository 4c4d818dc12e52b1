"""Clusters that let nothing go on: failed visits, pauses of sites and of people, and limits."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, OuterRef, Q
from django.urls import reverse

from experiments.execution.limits import find_holds
from experiments.health.stuck_kinds import MOST_SHOWN, Kind, Row, Stuck
from experiments.models import Cluster, Experiment, Job, Pause
from experiments.models.cluster import CONNECTION_LIMIT

FAILURES = 2  # of visits in a row; one alone is over in seconds


def list_failing_clusters(now: datetime) -> list[Kind]:
    """Return the clusters with jobs whose last visits failed."""
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


def list_pauses(now: datetime) -> list[Kind]:
    """Return the pauses of sites that take no jobs for now."""
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


def list_paused_experiments(now: datetime) -> list[Kind]:
    """Return the experiments that a person has paused."""
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


def list_limits(now: datetime) -> list[Stuck]:
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
            "They go on by themselves at the time that is named. All who may change the cluster "
            "can raise its limits.",
            len(rows),
            tuple(rows[:MOST_SHOWN]),
        )
    ]
