"""`manage.py clock`: enqueue a visit to every cluster that is due. Run only one clock."""

from __future__ import annotations

import logging
import signal
import time
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.db import InterfaceError, OperationalError, close_old_connections
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from experiments.clusters.old_readings import forget_old_readings
from experiments.clusters.visit_requests import LONGEST
from experiments.deposits import list_due_deposits
from experiments.execution.stored_values import find_longest_waiting
from experiments.execution.visit_times import is_urgent
from experiments.health.alert_watch import watch_beside
from experiments.health.signs import show_sign
from experiments.liveness import mark_alive
from experiments.models import (
    CheckReport,
    Cluster,
    ClusterReading,
    ConnectionTest,
    HostKey,
    ImageImport,
    Job,
    Operation,
    RunFile,
    ServiceSign,
    StagedImage,
)
from experiments.models.cluster import LONGEST_BACK_OFF
from experiments.models.database_time import database_now
from experiments.models.images import SILENCE
from experiments.notifications import (
    forget_notifications,
    forget_old,
    list_due_people,
    list_open_ways,
    list_unwatched,
)
from experiments.notify import (
    enqueue_copy,
    enqueue_deliver,
    enqueue_deposit,
    enqueue_find_changes,
    enqueue_keep,
    enqueue_receive,
    enqueue_recur,
    enqueue_send,
    enqueue_store_values,
    enqueue_tick,
    enqueue_visit,
    enqueue_watch,
    is_bulk_free,
)
from experiments.recurring import (
    list_due,
    list_unnoted,
    list_watched_clusters,
)

# How long a requested check or host key may wait before the clock enqueues it again.
WAITING_SECONDS = 10
# The same for visits to clusters. Those that wait in a queue are not added once more.
AGAIN_SECONDS = 60
# Messages to people that are due are looked for as often.
DELIVERY_SECONDS = 5
# Facts of clusters after whose change something recurs are looked for as often.
CHANGES_SECONDS = 300
# The values of changed experiments are stored as often.
VALUES_SECONDS = 60
# What is older than it is kept is deleted as often.
CLEANING_SECONDS = 3600
PAUSE_SECONDS = 0.5
INTERVAL_COLUMNS = (
    *("poll_seconds", "changed_at", "last_tick_at", "last_tick_seconds"),
    *("transport", "max_connections_per_hour"),
)
# A round takes milliseconds: a health check calls a clock that needs longer than this unhealthy.
ALIVE_SECONDS = 30


logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Enqueue a visit to every cluster, as often as the cluster allows."

    def handle(self, *args: Any, **options: Any) -> None:
        """Enqueue what is due twice a second, until SIGTERM or SIGINT."""
        # A list and no Event: a handler can wait for ever for the lock of a wait it interrupts.
        stop_signals: list[int] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: stop_signals.append(number))
        enqueued_at: dict[int, float] = {}
        retried_at: dict[str, float] = {}
        handled: dict[int, tuple[datetime, float]] = {}
        with show_sign(ServiceSign.Service.CLOCK) as sign, watch_beside():
            while not stop_signals:
                try:
                    enqueue_due(enqueued_at, time.monotonic())
                    enqueue_early(handled, time.monotonic())
                    enqueue_waiting(retried_at, time.monotonic())
                    enqueue_watches(retried_at, time.monotonic())
                    enqueue_recurrences(retried_at, time.monotonic())
                    enqueue_deliveries(retried_at, time.monotonic())
                    enqueue_stored_values(retried_at, time.monotonic())
                    forget_old_rows(retried_at, time.monotonic())
                    sign.beat()
                    mark_alive(ALIVE_SECONDS)
                except (OperationalError, InterfaceError) as error:
                    # PostgreSQL is away; it will come back, or the supervisor ends us.
                    self.stderr.write(str(error))
                    close_old_connections()
                time.sleep(PAUSE_SECONDS)


def enqueue_due(enqueued_at: dict[int, float], now: float) -> None:
    """Enqueue a visit to each enabled cluster whose pause since `enqueued_at` is over."""
    of_cluster = {"cluster": OuterRef("pk")}
    jobs, operations = (
        Exists(model._default_manager.filter(**of_cluster).exclude(state__in=model.FINAL))
        for model in (Job, Operation)
    )
    # Whoever backs off is not asked for until that is over. What lies further ahead was written
    # before the clock was turned back.
    ahead = Q(retry_at__gt=Now() + LONGEST_BACK_OFF)
    may_be_visited = Q(retry_at=None) | Q(retry_at__lte=Now()) | ahead
    clusters = Cluster.objects.filter(may_be_visited, enabled=True).only(*INTERVAL_COLUMNS)
    for cluster in clusters.annotate(is_busy=jobs | operations, moment=Now()):
        is_busy, moment = cluster.is_busy, cluster.moment  # type: ignore[attr-defined]
        pause = cluster.interval_seconds if is_busy else cluster.idle_seconds
        since = now - enqueued_at.get(cluster.pk, float("-inf"))
        is_overdue = since >= AGAIN_SECONDS and _is_overdue(cluster, pause, moment)
        if since >= pause or is_overdue:
            enqueued_at[cluster.pk] = now
            enqueue_tick(cluster.pk)


def _is_overdue(cluster: Cluster, pause: float, moment: datetime) -> bool:
    """Return whether the visit that was asked for has not begun: its task may be lost."""
    last = cluster.last_tick_at
    return last is None or (moment - last).total_seconds() > pause + AGAIN_SECONDS


def enqueue_early(handled: dict[int, tuple[datetime, float]], now: float) -> None:
    """Enqueue visits that were requested too early, as soon as the cluster may be visited.

    `handled` are the requests that were enqueued, each with the moment: another task follows after
    AGAIN_SECONDS alone, as that one may be lost. Both moments are by `time.monotonic`.
    """
    clusters = Cluster.objects.filter(enabled=True, wanted_at__isnull=False)
    for cluster in clusters.exclude(lease_until__gt=Now()).annotate(moment=Now()):
        moment = cluster.moment  # type: ignore[attr-defined]
        due_at = cluster.due_at(moment)
        is_due = due_at is None or due_at <= moment or is_urgent(cluster, moment)
        wanted_at, enqueued_at = handled.get(cluster.pk, (None, now))
        is_new = wanted_at != cluster.wanted_at or now - enqueued_at >= AGAIN_SECONDS
        if is_due and is_new and cluster.wanted_at:
            handled[cluster.pk] = cluster.wanted_at, now
            enqueue_tick(cluster.pk)


def enqueue_waiting(retried_at: dict[str, float], now: float) -> None:
    """Enqueue again what a person has requested and no worker has begun: its task was lost."""
    if now - retried_at.get("asked", float("-inf")) < WAITING_SECONDS:
        return
    retried_at["asked"] = now
    clock = database_now()
    asked = {"began_at": None, "ended_at": None, "requested_at__gt": clock - LONGEST}
    late = clock - timedelta(seconds=WAITING_SECONDS)
    for model in (CheckReport, HostKey, ConnectionTest, ClusterReading):
        for row in model._default_manager.filter(requested_at__lt=late, **asked):
            enqueue_visit(row)
    if not is_bulk_free():
        return  # what waits in the queue has its tasks already
    silent = clock - SILENCE
    for archive in StagedImage.objects.to_be_sent().filter(
        Q(sending_at=None) | Q(sending_at__lt=silent)
    ):
        enqueue_send(archive)
    waiting = Q(state=ImageImport.State.WAITING, requested_at__lt=late)
    died = Q(state=ImageImport.State.UNDER_WAY, seen_at__lt=silent)
    for image_import in ImageImport.objects.filter(waiting | died).exclude(
        kind__in=ImageImport.BUILT
    ):
        enqueue_receive(image_import)
    for file in RunFile.objects.to_be_copied().filter(Q(seen_at=None) | Q(seen_at__lt=silent))[:50]:
        enqueue_copy(file)
    for pk in list_due_deposits():
        enqueue_deposit(pk)


def enqueue_watches(retried_at: dict[str, float], now: float) -> None:
    """Have experiments looked at in which something may be new: the task may have been lost."""
    if now - retried_at.get("watched", float("-inf")) < AGAIN_SECONDS:
        return
    retried_at["watched"] = now
    for pk in list_unwatched():
        enqueue_watch(pk)


def enqueue_recurrences(retried_at: dict[str, float], now: float) -> None:
    """Have recurring experiments launched that are due, and noted what has come of them."""
    if now - retried_at.get("recurred", float("-inf")) < AGAIN_SECONDS:
        return
    retried_at["recurred"] = now
    for pk in list_due(database_now()):
        enqueue_recur(pk)
    for pk in list_unnoted():
        enqueue_keep(pk)
    if now - retried_at.get("changes", float("-inf")) >= CHANGES_SECONDS:
        retried_at["changes"] = now
        for pk in list_watched_clusters():
            enqueue_find_changes(pk)


def enqueue_deliveries(retried_at: dict[str, float], now: float) -> None:
    """Have messages sent that are due."""
    if now - retried_at.get("delivered", float("-inf")) >= DELIVERY_SECONDS:
        retried_at["delivered"] = now
        for pk in {pk for way in list_open_ways() for pk in list_due_people(way)}:
            enqueue_deliver(pk)


def enqueue_stored_values(retried_at: dict[str, float], now: float) -> None:
    """Ask for values of experiments to be stored, where runs have changed."""
    if now - retried_at.get("values", float("-inf")) >= VALUES_SECONDS:
        retried_at["values"] = now
        if (pk := find_longest_waiting()) is not None:
            enqueue_store_values(pk)


def forget_old_rows(retried_at: dict[str, float], now: float) -> None:
    """Delete what people were told, and readings of clusters, once older than they are kept.

    What cannot be deleted is in the log, and ends neither the others nor the clock, which is needed
    for everything else.
    """
    if now - retried_at.get("cleaned", float("-inf")) < CLEANING_SECONDS:
        return
    retried_at["cleaned"] = now
    for forget in (forget_old, forget_notifications, forget_old_readings):
        try:
            forget()
        except (OperationalError, InterfaceError):
            raise  # PostgreSQL is away
        except Exception:
            logger.exception("Old rows stay: %s", forget.__name__)
