"""`manage.py checkcluster NAME`: check whether a cluster is ready for an experiment."""

from __future__ import annotations

import sys
import time
from itertools import groupby
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from experiments import execution
from experiments.clusters.preflights import request_check
from experiments.models import Cluster
from runners.preflight.checks import Check


class Command(BaseCommand):
    help = "Log in to a cluster, check what an experiment needs, and name a cure for each problem."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="The cluster's name in the catalogue.")
        parser.add_argument(
            "--connection", action="store_true", help="Only log in, over every jump host."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the checks, and exit with 1 if one has failed.

        Raises CommandError if no cluster has this name, or if a check is under way.
        """
        cluster = Cluster.objects.filter(name=options["name"], recorded=False).first()
        if cluster is None:
            known = (
                ", ".join(Cluster.objects.filter(recorded=False).values_list("name", flat=True))
                or "none yet"
            )
            raise CommandError(f"No cluster is called {options['name']}. There are: {known}.")
        began = time.monotonic()
        if options["connection"] and cluster.transport == "ssh":
            checks = execution.try_log_in(cluster)
        else:
            checks = self._check(cluster)
        for area, rows in groupby(checks, lambda check: check.area):
            self.stdout.write(self.style.MIGRATE_HEADING(area))
            for check in rows:
                self._write(check)
        red = sum(check.outcome == "failed" for check in checks)
        seconds = time.monotonic() - began
        self.stdout.write(f"{cluster}: {red or 'nothing'} red of {len(checks)}, {seconds:.1f} s")
        if red:
            sys.exit(1)

    def _check(self, cluster: Cluster) -> list[Check]:
        report = request_check(cluster, None)
        if execution.check(report.pk) == "begun already":
            raise CommandError("A check of it is under way; try again in a minute.")
        report.refresh_from_db()
        return report.checks

    def _write(self, check: Check) -> None:
        style = {"failed": self.style.ERROR, "warning": self.style.WARNING}.get(
            check.outcome, self.style.SUCCESS if check.outcome == "ok" else str
        )
        outcome = "-" if check.outcome == "not applicable" else check.outcome
        self.stdout.write(f"  {style(f'{outcome:8}')}{check.name}: {check.found}")
        if check.is_bad:
            for line in (check.cure, *check.words.splitlines()):
                self.stdout.write(f"          {line}")
