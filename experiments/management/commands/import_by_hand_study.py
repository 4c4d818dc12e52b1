"""`manage.py import_by_hand_study PLAN ARCHIVE`: a study that `benchmarks/by_hand.py` had made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from experiments.access.permissions import may_add
from experiments.imports import ImportProblem
from experiments.imports.by_hand_studies import import_study
from experiments.models import Experiment, User


class Command(BaseCommand):
    help = "Import a study whose jobs were written by benchmarks/by_hand.py of a former version."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("plan", type=Path, help="The plan from which the jobs were written.")
        parser.add_argument("archive", type=Path, help="What came back: a tar, tar.gz or tar.xz.")
        parser.add_argument("--owner", required=True, help="The user who will own the experiment.")
        parser.add_argument("--machine", required=True, help="The name of the machine.")
        parser.add_argument("--question", default="", help="The experiment's title.")
        parser.add_argument(
            "--final", action="store_true", help="Take unfinished and incomplete jobs as they are."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Say of each job what became of it. Raises CommandError if nothing was stored."""
        owner = User.objects.filter(username=options["owner"]).first()
        if owner is None:
            raise CommandError(f"There is no user called {options['owner']}.")
        if not may_add(owner, Experiment):
            raise CommandError(f"{owner} may make no experiments (role: {owner.role}).")
        source: Path = options["archive"]
        try:
            with source.open("rb") as archive:
                imported = import_study(
                    options["plan"].read_bytes(),
                    archive,
                    owner,
                    machine=options["machine"][:90],
                    question=(options["question"] or f"What does {source.name} say?")[:300],
                    source=source.name,
                    is_final=options["final"],
                )
        except (OSError, ImportProblem) as problem:
            raise CommandError(f"{problem} Nothing was imported.") from None
        experiment, brought = imported.experiment, imported.brought
        for note in brought.notes:
            self.stdout.write(note)
        for answer in brought.refused:
            self.stdout.write(f"Not entered: {answer.name}: {answer.why}")
        address = experiment.get_absolute_url()
        self.stdout.write(f"Experiment {experiment.pk}, {address}: {brought.describe()}")
