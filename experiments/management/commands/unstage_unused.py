"""`manage.py unstage_unused`: remove what nothing uses: staged images, code, bytes in the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from experiments.code_copies import code_requests
from experiments.images import staging
from experiments.images.store_leftovers import list_leftovers
from experiments.models import Cluster, CodeCopy, StagedImage, User
from experiments.models.images import ARCHIVE
from experiments.statistics import numbers


@dataclass(frozen=True)
class Removal:
    """A staged image or a copy of code that nothing uses."""

    row: StagedImage | CodeCopy
    why: str

    def __str__(self) -> str:
        return f"{self.row}: {self.why}, {_size(self.row.size_bytes)}, {self.row.path}"

    def request(self, by: User) -> str:
        """Request that it is removed; return why not, "" if that was done."""
        try:
            if isinstance(self.row, CodeCopy):
                code_requests.remove(self.row, by)
            else:
                staging.unstage(self.row, by)
        except (staging.NotDone, code_requests.NotDone) as refusal:
            return str(refusal)
        return ""


class Command(BaseCommand):
    help = (
        "Request the removal of staged images that Tare has made and that no environment uses, and "
        "of code on clusters that no workload names; remove what the image store holds of no image "
        "and no workload. What a launched experiment uses stays."
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
        for removal in [*_list_images(cluster), *_list_code(cluster)]:
            if by is not None and (refusal := removal.request(by)):
                self.stdout.write(f"  stays   {removal.row}: {refusal}")
                continue
            self.stdout.write(f"  {'would go' if by is None else 'asked'}  {removal}")
            freed, count = freed + (removal.row.size_bytes or 0), count + 1
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


def _list_images(cluster: Cluster | None) -> list[Removal]:
    """Return the staged images that may go, of one cluster or of all."""
    kept, unused = "an archive that Tare also keeps elsewhere", "no environment uses it"
    return [
        Removal(row, kept if row.format == ARCHIVE else unused)
        for row in staging.list_unused_forms(cluster)
    ]


def _list_code(cluster: Cluster | None) -> list[Removal]:
    """Return the copies of code that may go, of one cluster or of all."""
    rows = CodeCopy.objects.filter(cluster=cluster) if cluster else CodeCopy.objects.all()
    unused = code_requests.list_unused_copies(rows).select_related("cluster").defer("paths")
    return [Removal(row, "no workload names it") for row in unused]


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
