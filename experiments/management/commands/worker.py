"""`manage.py worker`: answers the doorbell."""

from __future__ import annotations

from typing import Any

import django_rq
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from rq import SimpleWorker


class Command(BaseCommand):
    help = "Run the tasks that pages and the clock ask for, until told to stop."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--queue", choices=settings.RQ_QUEUES, default="default", help="One worker, one queue."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        queue = django_rq.get_queue(options["queue"])
        # No work horse: a tick is safe to lose, and a forked child could outlive its parent.
        # The short times let another worker notice within seconds that this one has died.
        SimpleWorker(
            [queue],
            connection=queue.connection,
            serializer=queue.serializer,
            worker_ttl=20,
            maintenance_interval=5,
            job_monitoring_interval=2,
        ).work(logging_level="WARNING")
