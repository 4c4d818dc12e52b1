"""`manage.py worker`: run the tasks of a queue."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from experiments.execution.holder import name_process
from experiments.execution.slots import MOST_SLOTS, SLOTS, run_slots
from experiments.health.alert_watch import watch_beside
from experiments.health.signs import beat_beside
from experiments.models import ServiceSign
from experiments.notify import get_queue, name_own_queue


class Command(BaseCommand):
    help = "Run the tasks that pages and the clock have enqueued, until stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--queue",
            choices=settings.RQ_QUEUES,
            default="default",
            help="The queue of this worker.",
        )

        parser.add_argument(
            "--slots",
            type=int,
            help="Tasks at the same time. By default "
            + " and ".join(f"{count} of {name}" for name, count in SLOTS.items())
            + ".",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["queue"]
        queues = [get_queue(name)]
        if name == "default":
            queues.insert(0, get_queue(name_own_queue(name_process())))
        count = options["slots"] or SLOTS[name]
        if not 1 <= count <= MOST_SLOTS:
            raise CommandError(f"--slots takes 1 to {MOST_SLOTS}.")
        with beat_beside(ServiceSign.Service.WORKER, name), watch_beside():
            run_slots(queues, count)
