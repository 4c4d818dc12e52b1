"""`manage.py import_bundle FILE --owner NAME`: an experiment of another Tare, from its bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from experiments.access.permissions import may_add
from experiments.imports import ImportProblem
from experiments.imports.imported_bundles import DATABASE_AWAY, LOST, BundleKnown, import_bundle
from experiments.models import Experiment, User


class Command(BaseCommand):
    help = "Import a bundle that another Tare has written, after all of it was checked."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="The bundle: docs/imports.md.")
        parser.add_argument("--owner", required=True, help="The user who will own the experiment.")
        parser.add_argument(
            "--visibility",
            default=Experiment.Visibility.PRIVATE,
            choices=[value for value in Experiment.Visibility.values if value != "groups"],
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Store the experiment. Raises CommandError, with nothing stored, if that cannot be."""
        path: Path = options["file"]
        owner = User.objects.filter(username=options["owner"]).first()
        if owner is None:
            raise CommandError(f"There is no user called {options['owner']}.")
        if not may_add(owner, Experiment):
            raise CommandError(f"{owner} may make no experiments (role: {owner.role}).")
        try:
            imported = import_bundle(
                path, owner, file_name=path.name, visibility=options["visibility"]
            )
        except BundleKnown as known:
            address = known.experiment.get_absolute_url()
            raise CommandError(f"{known} {address}. Nothing was imported.") from None
        except (OSError, ImportProblem) as problem:
            raise CommandError(f"{problem} Nothing was imported.") from None
        except DATABASE_AWAY as error:
            raise CommandError(f"{LOST} ({error})") from error
        experiment = imported.experiment
        self.stdout.write(
            f"All check sums and numbers agree. Experiment {experiment.pk}, "
            f"{experiment.get_absolute_url()}: {experiment}"
        )
        for difference in imported.differences:
            self.stdout.write(difference)
