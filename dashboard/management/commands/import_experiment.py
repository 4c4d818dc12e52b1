"""`manage.py import_experiment FILE --owner NAME [--launch]`: an experiment or study of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dashboard.planning.study_drafts import store_file
from experiments.access.permissions import may_add
from experiments.definitions.definition_problems import BadDefinition
from experiments.definitions.definition_reading import read_mapping
from experiments.definitions.yaml_tree import MOST_BYTES
from experiments.models import Experiment, Study, User


class Command(BaseCommand):
    help = (
        "Make drafts of an experiment's file or a study's, or launch it: docs/experiment-files.md."
    )

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
        try:
            made = store_file(
                _read(options["file"]),
                owner,
                mapping,
                launch=options["launch"],
                make_missing=options["make_workloads"],
            )
        except BadDefinition as error:
            raise CommandError(f"{error}\nNothing was stored.") from None
        kind = made._meta.verbose_name
        drafts = "A study of drafts" if isinstance(made, Study) else "A draft"
        what = "Launched" if options["launch"] else drafts
        self.stdout.write(f"{what}: {kind} {made.pk}, {made.get_absolute_url()}: {made}")


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from None
