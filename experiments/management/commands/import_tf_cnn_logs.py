"""`manage.py import_tf_cnn_logs FOLDER`: import logs of tf_cnn_benchmarks as an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from experiments.access.permissions import may_add
from experiments.imports import LIMITS, ImportProblem, list_files, read_logs
from experiments.imports.imported_runs import KIND, AlreadyImported, store
from experiments.imports.layout import Position, list_positions, suggest_position
from experiments.models import Experiment, User
from experiments.statistics import numbers


class Command(BaseCommand):
    help = "Import logs of tf_cnn_benchmarks (a folder, zip, tar or tar.gz) as an experiment."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("source", type=Path, help=f"docs/imports.md. {LIMITS.in_words()}")
        parser.add_argument("--owner", required=True, help="The user who will own the experiment.")
        parser.add_argument(
            "--baseline", required=True, help="The environment's folder, or a part of its name."
        )
        parser.add_argument("--question", default="", help="The experiment's title.")
        parser.add_argument("--margin", type=float, default=0.02, help="0.02 is 2 %%.")
        parser.add_argument("--machine", default="", help="The name of the machine.")
        parser.add_argument(
            "--environment",
            type=int,
            help="The part of the paths that names the environment, from 0; by default the first "
            "that names container tools.",
        )
        parser.add_argument("--metric", default="", choices=[m.name for m in KIND.metrics])
        parser.add_argument(
            "--visibility",
            default=Experiment.Visibility.PRIVATE,
            choices=[value for value in Experiment.Visibility.values if value != "groups"],
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Store the experiment. Raises CommandError, with nothing stored, if that cannot be."""
        source: Path = options["source"]
        owner = User.objects.filter(username=options["owner"]).first()
        if owner is None:
            raise CommandError(f"There is no user called {options['owner']}.")
        if not may_add(owner, Experiment):
            raise CommandError(f"{owner} may make no experiments (role: {owner.role}).")
        if not 0.0001 <= options["margin"] <= 1:
            raise CommandError("A margin is from 0.0001 to 1; 0.02 is 2 %.")
        try:
            logs = read_logs(list_files(source))
            positions_in_paths = list_positions(logs.runs)
            environment_position = _choose_position(positions_in_paths, options["environment"])
            experiment = store(
                logs,
                environment=environment_position.index,
                baseline=_find_baseline(environment_position, options["baseline"]),
                question=options["question"] or f"What do the logs in {source.name} say?",
                margin=options["margin"],
                owner=owner,
                source=source.name,
                machine=options["machine"] or source.name,
                metric=options["metric"],
                visibility=options["visibility"],
            )
        except AlreadyImported as known:
            address = known.experiment.get_absolute_url()
            raise CommandError(f"{known} ({address}). Nothing was imported.") from None
        except (OSError, ImportProblem) as error:
            raise CommandError(f"{error} Nothing was imported.") from None
        failed = sum(bool(run.reason) for run in logs.runs)
        self.stdout.write(
            f"{numbers.count(len(logs.runs), 'run')} in "
            f"{numbers.count(len(environment_position.values), 'environment')}: experiment "
            f"{experiment.pk}, {experiment.get_absolute_url()}. {failed} of them failed; "
            f"{logs.left_out} other files were left out."
        )
        for run in logs.runs:
            if run.reason:
                self.stdout.write(f"  {run.reason}: {run.message}")


def _choose_position(paths_positions: list[Position], index: int | None) -> Position:
    """Return the position with this index, or the likeliest. Raises ImportProblem for none."""
    if index is None:
        position = suggest_position(paths_positions)
        if position is None:
            raise ImportProblem("No part of the paths tells environments apart.")
        return position
    if not 0 <= index < len(paths_positions):
        raise ImportProblem(f"The paths have parts 0 to {len(paths_positions) - 1}, not {index}.")
    return paths_positions[index]


def _find_baseline(position: Position, name: str) -> str:
    """Return the environment that `name` names in full, or in part if only one matches.

    Raises ImportProblem if none or several match in part.
    """
    matching = [
        candidate for candidate in position.values if name == candidate or name in candidate
    ]
    if name in position.values:
        return name
    if len(matching) == 1:
        return matching[0]
    raise ImportProblem(f"Which of {', '.join(position.values)} is the baseline {name!r}?")
