"""`manage.py write_jobs EXPERIMENT FILE`: the jobs for a machine that Tare cannot reach."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from experiments.execution import NothingToCarry, tick, write_jobs
from experiments.models import Experiment, Job

MOST_SECONDS = 60  # for the visit that hands out what was planned


class Command(BaseCommand):
    help = "Write the archive with an experiment's jobs for a machine without a connection."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("experiment", type=int, help="The experiment's number.")
        parser.add_argument("file", type=Path, help="Where to write it; a tar.gz.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the archive. Raises CommandError, with no file left, if that cannot be."""
        experiment = Experiment.objects.filter(pk=options["experiment"]).first()
        if experiment is None:
            raise CommandError(f"There is no experiment {options['experiment']}.")
        if experiment.cluster.is_by_hand:
            _hand_out(experiment)
        target: Path = options["file"]
        part = target.with_name(f"{target.name}.part")
        try:
            archive = write_jobs(experiment, None)
            with part.open("wb") as file:
                file.writelines(archive.content)
            part.replace(target)
        except (NothingToCarry, OSError) as problem:
            part.unlink(missing_ok=True)
            raise CommandError(str(problem)) from None
        self.stdout.write(f"{archive.count} jobs in {target}, {target.stat().st_size:,} bytes.")


def _hand_out(experiment: Experiment) -> None:
    """Have planned jobs handed out, as a worker's visit does; none need be running."""
    planned = experiment.jobs.filter(state=Job.State.PLANNED)
    deadline = time.monotonic() + MOST_SECONDS
    while planned.exists() and experiment.paused_at is None and time.monotonic() < deadline:
        if tick(experiment.cluster_id) not in ("early", "busy"):
            return
        time.sleep(0.2)
