"""Values of experiments are stored while several processes write runs: nobody waits in a circle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.db import connection, transaction

from experiments.execution.keeping import keep_run_ends
from experiments.execution.run_ends import RunEnd
from experiments.execution.stored_values import (
    COLUMNS,
    RUNS,
    fetch_values,
    list_changed,
    store_changed_values,
)
from experiments.imports.imported_bundles import import_bundle
from experiments.models import Experiment, Run
from runners.workloads.results import Result
from tests.experiments.bundles.studies import end_runs, launch, make_bundle
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db(transaction=True)

KEYS = (RUNS, "metric.step_time", "fact.kernel")
PORTION = 3


def collect(runs: Sequence[Run]) -> None:
    """Store ends of runs, in portions of one transaction each, as visits do."""
    for start in range(0, len(runs), PORTION):
        keep_run_ends(
            [
                RunEnd(
                    run,
                    Run.State.SUCCEEDED,
                    {"node": "node1"},
                    result=Result({"step_time": (0.1 + place / 100, "s")}, {}, {}, {}),
                    snapshot={"inside": {"kernel": f"6.{place % 4}"}},
                )
                for place, run in enumerate(runs[start : start + PORTION], start)
            ]
        )


def read_rows(changed: set[int]) -> list[tuple[object, ...]]:
    return sorted(fetch_values(KEYS, changed, COLUMNS[2:]), key=str)


def test_collectors_an_import_and_a_deletion_beside_each_other(tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    of_bundle = launch(repeats=5)
    end_runs(of_bundle)
    path.write_bytes(make_bundle(of_bundle))
    Experiment.objects.get(pk=of_bundle.pk).delete()
    first, second, deleted = (launch(repeats=12) for _ in range(3))
    end_runs(deleted)
    owner = UserFactory()
    Run.objects.filter(experiment__in=(first, second)).update(state=Run.State.RUNNING)
    runs = list(
        Run.objects.filter(experiment__in=(first, second)).select_related("environment", "job")
    )
    halves = runs[::2], runs[1::2][::-1]  # of both experiments, and against each other
    begin, is_over = threading.Barrier(5), threading.Event()

    def begin_together(work: Callable[[], object]) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET deadlock_timeout = '100ms'")
            begin.wait(60)
            work()
        finally:
            connection.close()

    def store_again_and_again() -> None:
        while not is_over.is_set():
            store_changed_values()
            read_rows(list_changed())

    def delete() -> None:
        with transaction.atomic():
            deleted.runs.update(state=Run.State.EXCLUDED)
            deleted.jobs.all().delete()
            Experiment.objects.get(pk=deleted.pk).delete()

    with ThreadPoolExecutor(5) as pool:
        stored = pool.submit(begin_together, store_again_and_again)
        written = [
            pool.submit(begin_together, work)
            for work in (
                lambda: collect(halves[0]),
                lambda: collect(halves[1]),
                lambda: import_bundle(path, owner, file_name="bundle.zip"),
                delete,
            )
        ]
        try:
            for future in written:
                future.result(120)
        finally:
            is_over.set()
        stored.result(120)
    everything = set(Experiment.objects.values_list("pk", flat=True))
    assert len(everything) == 3
    assert read_rows(list_changed()) == read_rows(everything)
    store_changed_values()
    assert not list_changed()
    rows = read_rows(set())
    assert rows == read_rows(everything)
    assert {(row[0], row[2]) for row in rows if row[1] == RUNS} == {
        (row.pk, row.runs.count()) for row in Experiment.objects.all()
    }


def test_a_change_that_is_committed_while_values_are_stored_is_stored_next() -> None:
    """A process that writes does not wait, and what it writes is not lost."""
    experiment = launch(repeats=2)
    end_runs(experiment)
    run = experiment.runs.first()
    assert run is not None
    store_changed_values()
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            run.measurements.update(value=9.0)
            # Nothing of it is visible yet, and nobody waits for it.
            assert pool.submit(_store_in_thread).result(60) == 0
        assert list_changed() == {experiment.pk}
        with transaction.atomic():
            Run.objects.filter(pk=run.pk).update(state=Run.State.EXCLUDED)
            assert pool.submit(_store_in_thread).result(60) == 1
    assert list_changed() == {experiment.pk}
    assert read_rows(list_changed()) == read_rows({experiment.pk})


def _store_in_thread() -> int:
    try:
        return store_changed_values()
    finally:
        connection.close()
