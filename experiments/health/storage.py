"""How much room the database, its largest tables and the image store take, and what is left."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db import connection

from experiments.models import Run

MOST_TABLES = 8
MOST_FILES = 100_000  # of the store, that are counted
PER_RUN = (
    *("run", "runparameter", "job", "event", "measurement", "series", "snapshot", "runfile"),
)
"""Tables whose rows come with runs."""
FULL = 0.1  # of a disk, below which it is nearly full, unless ROOM is left
ROOM = 20e9  # bytes; a tenth of a large disk lasts for years

TABLES = """
    SELECT relname, pg_total_relation_size(oid), nullif(reltuples, -1)::bigint
    FROM pg_class
    WHERE relkind IN ('r', 'p', 'm') AND relnamespace = current_schema()::regnamespace
    ORDER BY 2 DESC, 1
"""
PLACE = """
    SELECT inet_server_addr(), CASE WHEN pg_has_role('pg_read_all_settings', 'USAGE')
        THEN current_setting('data_directory') END
"""
"""The folder is hidden from all but the server's administrators: asking for it would fail."""
SIZES = f"""
    {PLACE}, pg_database_size(current_database()), (SELECT count(*) FROM experiments_run)
"""  # noqa: S608 -- a text of this program
"""The same, with the size of the database and the number of its runs."""


@dataclass(frozen=True)
class Table:
    """A table with its indexes; `rows` as the database estimates them."""

    name: str
    size_bytes: int
    rows: int | None  # None: not estimated yet


@dataclass(frozen=True)
class Disk:
    """The file system of a folder."""

    path: str
    free_bytes: int
    total_bytes: int

    @property
    def is_nearly_full(self) -> bool:
        return self.free_bytes < min(FULL * self.total_bytes, ROOM)


@dataclass(frozen=True)
class Store:
    """The files of the image store."""

    images: int
    images_bytes: int
    incoming_bytes: int
    copies: int  # of files of runs, kept for a day
    copies_bytes: int


@dataclass(frozen=True)
class Storage:
    """All of it. A disk that cannot be seen from here is None."""

    database_bytes: int
    tables: tuple[Table, ...]
    runs: int
    run_bytes: float | None  # in all tables that come with runs, for each run
    database_disk: Disk | None
    store: Store | None
    store_disk: Disk | None


def read_storage() -> Storage:
    """Measure the database and the store."""
    with connection.cursor() as cursor:
        cursor.execute(SIZES)
        address, folder, database_bytes, runs = cursor.fetchone()
        cursor.execute(TABLES)
        tables = [Table(*row) for row in cursor.fetchall()]
    with_runs = {Run._meta.db_table.removesuffix("run") + name for name in PER_RUN}
    taken = sum(table.size_bytes for table in tables if table.name in with_runs)
    return Storage(
        database_bytes=database_bytes,
        tables=tuple(tables[:MOST_TABLES]),
        runs=runs,
        run_bytes=taken / runs if runs else None,
        database_disk=_measure_database_disk(address, folder),
        store=_measure_store(Path(settings.IMAGE_STORE)),
        store_disk=_measure_disk(Path(settings.IMAGE_STORE)),
    )


def read_disks() -> tuple[Disk | None, Disk | None]:
    """Return the disks of the database and of the image store, as far as they are seen."""
    return _find_database_disk(), _measure_disk(Path(settings.IMAGE_STORE))


def _find_database_disk() -> Disk | None:
    """Return the disk of a database on this machine, if it says where its data are."""
    with connection.cursor() as cursor:
        cursor.execute(PLACE)
        address, folder = cursor.fetchone()
    return _measure_database_disk(address, folder)


def _measure_database_disk(address: object, folder: str | None) -> Disk | None:
    is_here = address is None or str(address).partition("/")[0] in ("127.0.0.1", "::1")
    return _measure_disk(Path(folder)) if is_here and folder else None


def _measure_disk(path: Path) -> Disk | None:
    try:
        usage = shutil.disk_usage(path)
    except (OSError, ValueError):
        return None
    return Disk(str(path), usage.free, usage.total)


def _measure_store(folder: Path) -> Store | None:
    """Return what is in the store; None before its first file."""
    if not folder.is_dir():
        return None
    images, images_bytes = _measure_folder(folder / "sha256")
    _, incoming_bytes = _measure_folder(folder / "incoming")
    copies, copies_bytes = _measure_folder(folder / "copies")
    return Store(images, images_bytes, incoming_bytes, copies, copies_bytes)


def _measure_folder(folder: Path) -> tuple[int, int]:
    """Return how many files a folder has, and their size in bytes."""
    count = size = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    size += entry.stat(follow_symlinks=False).st_size
                except OSError:  # it is gone meanwhile
                    continue
                count += 1
                if count >= MOST_FILES:
                    break
    except OSError:
        return 0, 0
    return count, size
