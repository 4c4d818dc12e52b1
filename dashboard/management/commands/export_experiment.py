"""`manage.py export_experiment ID`: the file of a draft or of a launched plan."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from experiments.definitions.described_experiments import (
    JSON_ENDING,
    YAML_ENDING,
    CannotBeWritten,
    write_file,
)
from experiments.models import Experiment


class Command(BaseCommand):
    help = "Write the file of an experiment, as its owner gets it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("experiment", type=int, help="The experiment's number.")
        parser.add_argument("--format", default=YAML_ENDING, choices=[YAML_ENDING, JSON_ENDING])

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the file. Raises CommandError where there is none."""
        experiment = Experiment.objects.filter(pk=options["experiment"]).first()
        if experiment is None:
            raise CommandError(f"There is no experiment {options['experiment']}.")
        try:
            text = write_file(experiment, experiment.owner, options["format"])
        except CannotBeWritten as error:
            raise CommandError(str(error)) from None
        self.stdout.write(text, ending="")
