"""`manage.py update_advisories [FILE]`: read a list of vulnerabilities of Python packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from experiments.images.advisories import (
    COVERS,
    NoList,
    read_installed_list,
    read_list,
    replace_list,
)


class Command(BaseCommand):
    """Read a list of advisories, in the place of the one that there was."""

    help = (
        "Read a list of known vulnerabilities of Python packages, in the place of the one that "
        "there was: of the package safety-db if it is installed, or of a file (PyPI/all.zip of "
        "osv.dev, or insecure_full.json of safety-db). Nothing is fetched."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "file", nargs="?", default="", help="A zip file of OSV, or a JSON file."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            made = read_list(Path(options["file"])) if options["file"] else read_installed_list()
        except NoList as problem:
            raise CommandError(f"{problem} The list that there was stays.") from None
        replace_list(made)
        left_out = f" {made.left_out:,} could not be compared and were left out." * bool(
            made.left_out
        )
        self.stdout.write(
            f"{len(made.rows):,} known vulnerabilities of {made.source}, as of {made.known_on}."
            f"{left_out} It covers {COVERS}"
        )
