"""`manage.py unstage_unused`: remove staged images that nothing uses, and bytes of no image."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from experiments.images import staging
from experiments.images.store_leftovers import list_leftovers
from experiments.models import Cluster, User
from experiments.models.images import ARCHIVE
from experiments.statistics import numbers


class Command(BaseCommand):
    help = (
        "Request the removal of staged images that Tare has made and that no environment uses, and "
        "remove what the image store holds of no image. What a launched experiment uses stays."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--cluster",
            metavar="NAME",
            help="Only on this cluster; the image store stays as it is.",
        )
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="Print what would be removed, and remove nothing.",
        )
        parser.add_argument(
            "--owner",
            metavar="NAME",
            help="The user who requests the removals; by default a site administrator.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Request the removals, and print each. Raises CommandError for an unknown name."""
        cluster = _cluster(options["cluster"])
        by = None if options["dry_run"] else _owner(options["owner"])
        freed = count = 0
        for row in staging.list_unused_forms(cluster):
            why = (
                "an archive that Tare also keeps elsewhere"
                if row.format == ARCHIVE
                else ("no environment uses it")
            )
            description = f"{row}: {why}, {_size(row.size_bytes)}, {row.path}"
            if by is not None:
                try:
                    staging.unstage(row, by)
                except staging.NotDone as refusal:
                    self.stdout.write(f"  stays   {row}: {refusal}")
                    continue
            self.stdout.write(f"  {'would go' if by is None else 'asked'}  {description}")
            freed, count = freed + (row.size_bytes or 0), count + 1
        if cluster is None:
            for file in list_leftovers():
                if by is not None:
                    file.path.unlink(missing_ok=True)
                self.stdout.write(
                    f"  {'would go' if by is None else 'removed'}  {file.path}: {file.why}, "
                    f"{_size(file.size_bytes)}"
                )
                freed, count = freed + file.size_bytes, count + 1
        outcome = "would be freed" if by is None else "are freed once the clusters are done"
        self.stdout.write(f"{count or 'Nothing'} to remove; {_size(freed)} {outcome}.")


def _cluster(name: str | None) -> Cluster | None:
    if name is None:
        return None
    cluster = Cluster.objects.filter(name=name, recorded=False).first()
    if cluster is None:
        known = ", ".join(Cluster.objects.filter(recorded=False).values_list("name", flat=True))
        raise CommandError(f"No cluster is called {name}. There are: {known or 'none yet'}.")
    return cluster


def _owner(name: str | None) -> User:
    people = User.objects.filter(is_active=True)
    owner = (
        people.filter(username=name).first()
        if name
        else people.filter(is_superuser=True).order_by("pk").first()
    )
    if owner is None:
        raise CommandError(
            f"Nobody is called {name}." if name else "There is no site administrator; say --owner."
        )
    return owner


def _size(size: int | None) -> str:
    return numbers.quantity(None if size is None else float(size), "B", significant=3)
