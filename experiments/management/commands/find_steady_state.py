"""`manage.py find_steady_state`: look for the start-up of runs that were stored before Tare did."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from experiments.comparisons.step_summaries import TIMES, add_step_summaries
from experiments.models import Series


class Command(BaseCommand):
    help = "Find where the start-up of each stored run ends, where nobody has looked. Repeatable."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--again", action="store_true", help="also where it has been found")

    def handle(self, *args: Any, again: bool, **options: Any) -> None:
        rows = Series.objects.filter(unit="s", metric__in=TIMES)
        if not again:
            rows = rows.filter(shape="")
        noted = add_step_summaries(rows.iterator(chunk_size=100))
        self.stdout.write(f"{noted} series looked at.")
