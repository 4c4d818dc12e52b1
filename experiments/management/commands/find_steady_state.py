"""`manage.py find_steady_state`: find the end of the warm-up of runs that older Tares stored."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from experiments.comparisons.rows_by_key import iterate_rows
from experiments.comparisons.step_summaries import TIMES, add_step_summaries
from experiments.models import Series


class Command(BaseCommand):
    help = "Find the end of the warm-up in the steps of stored runs that have none yet."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--again", action="store_true", help="Find it anew for runs that have one, too."
        )

    def handle(self, *args: Any, again: bool, **options: Any) -> None:
        """Store what is found, and print how many series were read."""
        rows = Series.objects.filter(unit="s", metric__in=TIMES).select_related("run")
        if not again:
            rows = rows.filter(shape="")
        count = add_step_summaries(iterate_rows(rows.order_by("pk"), 100))
        self.stdout.write(f"{count} series read.")
