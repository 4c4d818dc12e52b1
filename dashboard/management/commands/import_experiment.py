"""`manage.py import_experiment FILE --owner NAME [--launch]`: an experiment from its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.planning.definition_drafts import launch_text, save_text
from experiments.access.permissions import may_add
from experiments.definitions.definition_problems import BadDefinition
from experiments.definitions.definition_reading import read_mapping
from experiments.definitions.yaml_tree import MOST_BYTES
from experiments.models import Experiment, User
from experiments.notify import enqueue_tick


class Command(BaseCommand):
    help = "Make a draft of an experiment's file, or launch it: docs/experiment-files.md."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="YAML or JSON.")
        parser.add_argument("--owner", required=True, help="The user who will own the experiment.")
        parser.add_argument("--map", type=Path, help="A table of names in the file -> names here.")
        parser.add_argument("--launch", action="store_true", help="Launch it at once.")
        parser.add_argument(
            "--make-workloads", action="store_true", help="Make workloads that are not here."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Store the experiment. Raises CommandError, with nothing stored, if that cannot be."""
        owner = User.objects.filter(username=options["owner"]).first()
        if owner is None:
            raise CommandError(f"There is no user called {options['owner']}.")
        if not may_add(owner, Experiment):
            raise CommandError(f"{owner} may make no experiments (role: {owner.role}).")
        mapping = read_mapping(_read(options["map"])) if options["map"] else {}
        if isinstance(mapping, tuple):
            raise CommandError("\n".join(map(str, mapping)))
        store = launch_text if options["launch"] else save_text
        content = _read(options["file"])
        try:
            experiment = store(content, owner, mapping, make_missing=options["make_workloads"])
        except BadDefinition as error:
            raise CommandError(f"{error}\nNothing was stored.") from None
        if options["launch"]:
            enqueue_tick(experiment.cluster_id)
        what = "Launched" if options["launch"] else "A draft"
        self.stdout.write(
            f"{what}: experiment {experiment.pk}, {experiment.get_absolute_url()}: {experiment}"
        )


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from None
