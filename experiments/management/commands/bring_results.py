"""`manage.py bring_results EXPERIMENT FILE`: enter what came back from a machine by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from experiments.execution import NotBrought, bring_results
from experiments.models import Experiment


class Command(BaseCommand):
    help = "Enter the results of an experiment's jobs that were run where Tare has no connection."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("experiment", type=int, help="The experiment's number.")
        parser.add_argument("file", type=Path, help="A tar, tar.gz or tar.xz, of any size.")
        parser.add_argument(
            "--final",
            action="store_true",
            help="Nothing runs there any more: what has begun and has no end, or lacks files, ends "
            "as it is.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Say of each job what became of it. Raises CommandError if any was refused."""
        experiment = Experiment.objects.filter(pk=options["experiment"]).first()
        if experiment is None:
            raise CommandError(f"There is no experiment {options['experiment']}.")
        source: Path = options["file"]
        try:
            with source.open("rb") as file:
                brought = bring_results(
                    experiment, file, None, name=source.name, is_final=options["final"]
                )
        except (NotBrought, OSError) as problem:
            raise CommandError(f"{problem} Nothing of it was entered.") from None
        for note in brought.notes:
            self.stdout.write(note)
        if brought.entered:
            self.stdout.write(f"Entered: blocks {brought.entered_blocks}.")
        if brought.known:
            self.stdout.write(f"Had entered before: blocks {brought.known_blocks}.")
        for answer in brought.refused:
            self.stdout.write(f"Not entered: {answer.title}: {answer.why}")
        self.stdout.write(brought.describe())
        if brought.refused:
            raise CommandError("Not all of it was entered.")
