"""`manage.py compare_table FILE --baseline NAME`: print the verdicts of a published table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from experiments.statistics.published.columns import ROLES, Reading
from experiments.statistics.published.compare import compare_table, describe_left_out
from experiments.statistics.published.report import format_text, make_json
from experiments.statistics.published.sheets import MOST_BYTES
from experiments.statistics.published.tables import read_table


class Command(BaseCommand):
    help = "Compare the environments of a published table: means with spread, or single runs."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="docs/published-tables.md lists the formats.")
        parser.add_argument("--baseline", required=True, help="The environment to compare with.")
        parser.add_argument("--margin", type=float, default=0.02, help="0.02 is 2 %%.")
        parser.add_argument(
            "--column",
            action="append",
            default=[],
            metavar="NAME=ROLE",
            help=f"The role of a column whose name does not show it: {', '.join(ROLES)}.",
        )
        parser.add_argument(
            "--unit", default="", help="The unit of the whole table: s, images/s, hh:mm."
        )
        parser.add_argument(
            "--direction", choices=["lower", "higher"], help="Which values are better."
        )
        parser.add_argument(
            "--runs", type=int, help="Runs behind each mean, if no column has them."
        )
        parser.add_argument(
            "--decimal",
            choices=["point", "comma"],
            default="",
            help="How numbers are written where their digits do not tell: 1,234.5 or 1.234,5.",
        )
        parser.add_argument("--json", action="store_true", help="Print the full results, as JSON.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the verdicts. Raises CommandError for a file that cannot be read or compared."""
        try:
            with options["file"].open("rb") as file:
                # One byte more than is allowed tells, whatever the size of the file.
                content = file.read(MOST_BYTES + 1)
            table = read_table(content, baseline=options["baseline"], reading=_reading(options))
            compared = compare_table(table, baseline=options["baseline"], margin=options["margin"])
        except (OSError, ValueError) as error:
            others = getattr(error, "others", [])
            raise CommandError("\n".join([str(error), *others])) from None
        rest = describe_left_out(table, baseline=options["baseline"])
        if options["json"]:
            self.stdout.write(json.dumps(make_json(compared, rest), indent=2, ensure_ascii=False))
        else:
            self.stdout.write(format_text(compared, rest))


def _reading(options: dict[str, Any]) -> Reading:
    roles = dict(option.rpartition("=")[::2] for option in options["column"])
    return Reading(
        roles, options["unit"], options["direction"], options["runs"], options["decimal"]
    )
