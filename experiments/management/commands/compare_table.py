"""`manage.py compare_table FILE --baseline NAME`: the verdicts that a published table supports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from experiments.statistics.published import compare_table
from experiments.statistics.report import as_json, as_text
from experiments.statistics.tables import MOST_BYTES, read_table


class Command(BaseCommand):
    help = "Compare the environments of a published table (CSV): means with spread, or single runs."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="CSV; docs/statistics.md names the columns.")
        parser.add_argument("--baseline", required=True, help="The environment to compare with.")
        parser.add_argument("--margin", type=float, default=0.02, help="0.02 is 2 %%.")
        parser.add_argument("--json", action="store_true", help="Every number, as JSON.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with options["file"].open("rb") as file:
                # One byte more than is allowed tells, whatever the size of the file.
                table = read_table(file.read(MOST_BYTES + 1), baseline=options["baseline"])
            compared = compare_table(table, baseline=options["baseline"], margin=options["margin"])
        except (OSError, ValueError) as error:
            raise CommandError(str(error)) from None
        if options["json"]:
            self.stdout.write(json.dumps(as_json(compared), indent=2, ensure_ascii=False))
        else:
            self.stdout.write(as_text(compared))
