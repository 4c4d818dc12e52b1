"""`manage.py worker`: run the tasks of a queue."""

from __future__ import annotations

from typing import Any

import django_rq
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from experiments.execution.task_worker import TaskWorker
from experiments.health.signs import beat_beside
from experiments.models import ServiceSign


class Command(BaseCommand):
    help = "Run the tasks that pages and the clock have enqueued, until stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--queue",
            choices=settings.RQ_QUEUES,
            default="default",
            help="The queue of this worker.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        queue = django_rq.get_queue(options["queue"])
        with beat_beside(ServiceSign.Service.WORKER, queue.name):
            TaskWorker(queue).work(logging_level="WARNING")
