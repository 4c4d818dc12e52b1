"""How much room Tare takes, and what is left of its disks."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection
from pytest_django import Settings

from experiments.health import storage
from experiments.health.status_report import find_storage_problems
from experiments.health.storage import MOST_TABLES, Disk, Storage, read_storage
from experiments.images import store
from experiments.models import Run
from tests.factories import RunFactory

pytestmark = pytest.mark.django_db


def test_tells_of_the_database_its_largest_tables_and_what_a_run_takes() -> None:
    for _ in range(2):
        RunFactory(values={"step_time": 1.0})
    measured = read_storage()
    assert measured.database_bytes > 10**6
    assert len(measured.tables) == MOST_TABLES
    sizes = [table.size_bytes for table in measured.tables]
    assert sizes == sorted(sizes, reverse=True)
    assert measured.runs == 2
    assert measured.run_bytes
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_total_relation_size(%s)", [Run._meta.db_table])
        (of_runs,) = cursor.fetchone()
    assert measured.run_bytes > of_runs / 2, "the other tables that come with runs count too"


def test_a_site_without_runs_has_no_size_of_a_run() -> None:
    measured = read_storage()
    assert (measured.runs, measured.run_bytes) == (0, None)


def test_tells_of_the_store_and_its_disk(settings: Settings) -> None:
    assert read_storage().store is None, "nothing was ever stored"
    store.get_path("a" * 64).write_bytes(b"x" * 1000)
    store.make_incoming_path("part").write_bytes(b"x" * 10)
    store.copy_of("7").write_bytes(b"x" * 100)
    measured = read_storage()
    assert measured.store
    assert (measured.store.images, measured.store.images_bytes) == (1, 1000)
    assert measured.store.incoming_bytes == 10
    assert (measured.store.copies, measured.store.copies_bytes) == (1, 100)
    assert measured.store_disk
    assert 0 < measured.store_disk.free_bytes <= measured.store_disk.total_bytes


def test_the_disk_of_a_database_on_this_machine_is_known() -> None:
    """The tests' own server is one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('data_directory')")
        (folder,) = cursor.fetchone()
    disk = read_storage().database_disk
    assert disk
    assert Path(disk.path) == Path(folder)


def test_who_may_not_know_where_the_data_are_is_told_the_rest() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE nobody_special; SET ROLE nobody_special")
    try:
        # Its tables are not this role's to read, so only the disk is asked for.

        assert storage._find_database_disk() is None
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET ROLE; DROP ROLE nobody_special")


def test_a_disk_that_is_nearly_full_is_a_problem() -> None:
    full, roomy = Disk("/full", 5, 100), Disk("/roomy", 50, 100)

    def describe(database: Disk | None, of_store: Disk | None) -> list[str]:
        measured = Storage(0, (), 0, None, database, None, of_store)
        return [problem.title for problem in find_storage_problems(measured)]

    assert describe(full, roomy) == ["The disk of the database is nearly full"]
    assert describe(roomy, full) == ["The disk of the image store is nearly full"]
    assert describe(None, None) == []


@pytest.mark.parametrize(
    ("free", "total", "nearly_full"),
    [(9e9, 100e9, True), (11e9, 100e9, False), (19e9, 4e12, True), (21e9, 4e12, False)],
)
def test_a_large_disk_is_not_nearly_full_while_there_is_room(
    free: float, total: float, nearly_full: bool
) -> None:
    assert Disk("/data", int(free), int(total)).is_nearly_full is nearly_full
