"""`manage.py export_bundle EXPERIMENT -o FILE`: write an experiment as one file to check."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.comparisons.bundle_files import make_bundle
from dashboard.comparisons.safe_files import make_file_name
from experiments.bundles import ChangedMeanwhile, NoBundle
from experiments.models import Experiment


class Command(BaseCommand):
    help = "Write an experiment as a bundle: one zip file, with the program that checks it."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("experiment", type=int, help="Its number, as its address has it.")
        parser.add_argument("-o", "--output", type=Path, help="The file to write; it must be new.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the file under another name first. CommandError where there is no bundle."""
        experiment = Experiment.objects.filter(pk=options["experiment"]).first()
        if experiment is None:
            raise CommandError(f"There is no experiment {options['experiment']}.")
        path = options["output"] or Path(make_file_name(experiment, "bundle", ".zip"))
        if path.exists():
            raise CommandError(f"{path} is there already. Choose another name.")
        partial = path.with_name(f"{path.name}.part")
        try:
            pieces = make_bundle(experiment)
            with partial.open("wb") as file:
                for piece in pieces:
                    file.write(piece)
            os.replace(partial, path)
        except (NoBundle, ChangedMeanwhile, OSError) as error:
            partial.unlink(missing_ok=True)
            raise CommandError(str(error)) from None
        print(f"{path}: {path.stat().st_size:,} bytes")
