"""`manage.py clock`: rings for every cluster that is due. Run one."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

from django.core.management.base import BaseCommand
from django.db import OperationalError, close_old_connections
from django.db.models import Exists, OuterRef

from experiments.models import Cluster, Job
from experiments.tasks import ring

# How often a cluster without work is visited, so that its page knows whether it answers.
IDLE_SECONDS = 60


class Command(BaseCommand):
    help = "Ring for a tick of every cluster, as often as the cluster allows."

    def handle(self, *args: Any, **options: Any) -> None:
        stopping = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopping.set())
        rung: dict[int, float] = {}
        while not stopping.wait(0.5):
            try:
                ring_what_is_due(rung, time.monotonic())
            except OperationalError as error:
                # PostgreSQL is away; it will come back, or the supervisor ends us.
                self.stderr.write(str(error))
                close_old_connections()


def ring_what_is_due(rung: dict[int, float], now: float) -> None:
    """Ring for each enabled cluster whose pause since `rung` is over; `now` in seconds."""
    alive = Job.objects.filter(cluster=OuterRef("pk")).exclude(state__in=Job.FINAL)
    clusters = Cluster.objects.filter(enabled=True).annotate(busy=Exists(alive))
    for pk, poll_seconds, busy in clusters.values_list("pk", "poll_seconds", "busy"):
        pause = poll_seconds if busy else max(poll_seconds, IDLE_SECONDS)
        if now - rung.get(pk, float("-inf")) >= pause:
            rung[pk] = now
            ring(pk)
