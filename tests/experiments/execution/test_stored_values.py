"""What is stored of experiments' runs: always what would be computed from them now."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from importlib import import_module
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.execution import stored_values
from experiments.execution.stored_values import (
    COLUMNS,
    FACT,
    METRIC,
    PARAMETER,
    RUNS,
    fetch_values,
    find_longest_waiting,
    list_changed,
    store_changed_values,
)
from experiments.management.commands import clock
from experiments.models import (
    Experiment,
    ExperimentValue,
    Job,
    Measurement,
    Run,
    Snapshot,
    ValueChange,
)
from experiments.models.database_locks import try_lock
from tests.experiments.test_migrations import go_back_to
from tests.factories import JobFactory, RunFactory

pytestmark = pytest.mark.django_db

KEYS = (
    RUNS,
    METRIC + "m",
    METRIC + "'%s",
    PARAMETER + "p",
    PARAMETER + "'%s",
    FACT + "f",
    FACT + "'%s",
)
STATES = ("succeeded", "succeeded", "excluded", "failed", "planned")
NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, 1.0, math.nan, math.inf, -math.inf, 1.7e308]),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=310)
VALUES = st.one_of(
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.sampled_from(["", "7", 7, "yes", "'; --", "%s", ["a"], {"b": 1}]),
    TEXTS,
)
RUN_CONTENTS = st.tuples(
    st.sampled_from(STATES),
    st.sampled_from(["1x1", "2x1"]),
    st.lists(st.tuples(st.sampled_from(["m", "'%s"]), NUMBERS, st.sampled_from(["s", "s", "ms"]))),
    st.dictionaries(st.sampled_from(["p", "'%s"]), VALUES, max_size=2),
    st.dictionaries(st.sampled_from(["f", "'%s", ""]), TEXTS, max_size=2),
)


def taken_back(test: Callable[..., None]) -> Callable[..., None]:
    """Take back what an example has stored."""

    @wraps(test)
    def run(**given_values: Any) -> None:
        with transaction.atomic():
            test(**given_values)
            transaction.set_rollback(True)

    return run


def make_runs(job: Job, contents: list[Any]) -> list[Run]:
    """Add runs to a job: states, scales, measurements, parameters and facts."""
    taken = job.runs.count()
    runs = [
        Run(
            experiment=job.experiment,
            job=job,
            workload=job.workload,
            environment=job.experiment.baseline,
            scale=scale,
            repeat=place,
            position=place,
            state=state,
            spec={"workload": {"parameters": parameters}},
            snapshot=make_snapshot(facts),
        )
        for place, (state, scale, _, parameters, facts) in enumerate(contents, taken)
    ]
    Run.objects.bulk_create(runs)
    Measurement.objects.bulk_create(
        Measurement(run=run, metric=metric, value=value, unit=unit)
        for run, (*_, measured, _, _) in zip(runs, contents, strict=True)
        for metric, (value, unit) in {name: rest for name, *rest in measured}.items()
    )
    return runs


def make_snapshot(facts: dict[str, str]) -> Snapshot:
    digest = f"{abs(hash(frozenset(facts.items())))}"
    return Snapshot.objects.get_or_create(
        content_hash=digest, defaults={"content": {}, "facts": facts}
    )[0]


def read_rows(changed: set[int]) -> set[tuple[Any, ...]]:
    rows = fetch_values(KEYS, changed, COLUMNS)
    return {tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in rows}


def compute_rows() -> set[tuple[Any, ...]]:
    return read_rows(set(Experiment.objects.values_list("pk", flat=True)))


def change(kind: str, job: Job, content: Any) -> None:
    """Change one of a job's runs, as one of the ways in which Tare does."""
    state, scale, measured, parameters, facts = content
    run = job.runs.order_by("pk").first()
    if kind == "new run" or run is None:
        make_runs(job, [content])
    elif kind == "state":
        Run.objects.filter(job=job).update(state=state)
    elif kind == "saved":
        run.state, run.spec = state, {"workload": {"parameters": parameters}}
        run.save()
    elif kind == "scale":
        Run.objects.filter(pk=run.pk).update(scale=scale, repeat=1000)
    elif kind == "snapshot":
        Run.objects.filter(pk=run.pk).update(snapshot=make_snapshot(facts))
    elif kind == "facts":
        Snapshot.objects.filter(pk=run.snapshot_id).update(facts=facts)
    elif kind == "measured":
        for metric, value, unit in measured:
            Measurement.objects.update_or_create(
                run=run, metric=metric, defaults={"value": value, "unit": unit}
            )
    elif kind == "not measured":
        Measurement.objects.filter(run__job=job).delete()
    elif kind == "deleted run":
        run.delete()
    else:
        Job.objects.filter(pk=job.pk).delete()


CHANGES = st.tuples(
    st.sampled_from(
        [
            *("new run", "state", "saved", "scale", "snapshot", "facts", "measured"),
            *("not measured", "deleted run", "deleted job", "stored"),
        ]
    ),
    st.integers(0, 1),
    RUN_CONTENTS,
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=60,
    deadline=None,
)
@given(
    contents=st.lists(st.lists(RUN_CONTENTS, max_size=4), min_size=2, max_size=2),
    changes=st.lists(CHANGES, max_size=5),
)
@taken_back
def test_what_is_read_is_what_the_runs_say(contents: list[Any], changes: list[Any]) -> None:
    jobs = [JobFactory() for _ in contents]
    for job, own in zip(jobs, contents, strict=True):
        make_runs(job, own)
    store_changed_values()
    assert read_rows(set()) == compute_rows()
    for kind, place, content in changes:
        if kind == "stored":
            store_changed_values()
        elif Job.objects.filter(pk=jobs[place].pk).exists():
            change(kind, jobs[place], content)
        assert read_rows(list_changed()) == compute_rows(), kind
    store_changed_values()
    assert not list_changed()
    assert read_rows(set()) == compute_rows()
    assert set(ExperimentValue.objects.values_list("experiment_id", flat=True)) <= set(
        Run.objects.filter(state="succeeded").values_list("experiment", flat=True)
    )


def test_of_each_state_only_what_succeeded_counts() -> None:
    job = JobFactory()
    run = make_runs(job, [("running", "1x1", [("m", 1.0, "s")], {"p": 1}, {"f": "x"})])[0]
    store_changed_values()
    assert not ExperimentValue.objects.exists()
    for state in Run.State.values:
        Run.objects.filter(pk=run.pk).update(state=state)
        store_changed_values()
        keys = set(ExperimentValue.objects.values_list("key", flat=True))
        assert keys == (
            {RUNS, "metric.m", "parameter.p", "fact.f"} if state == "succeeded" else set()
        )


def test_what_changes_nothing_is_not_noted() -> None:
    run: Run = RunFactory(state="succeeded")
    other: Run = RunFactory(state="running")
    store_changed_values()
    run.message = "seen"
    run.save()
    Run.objects.filter(pk=other.pk).update(node="node1", began_at=None)
    Run.objects.filter(pk=other.pk).update(state="failed")
    assert list_changed() == set()


def test_values_of_a_deleted_experiment_go() -> None:
    run: Run = RunFactory(state="succeeded")
    store_changed_values()
    assert ExperimentValue.objects.exists()
    Job.objects.all().delete()
    Experiment.objects.filter(pk=run.experiment_id).delete()
    store_changed_values()
    assert not ExperimentValue.objects.exists()


def test_many_runs_are_noted_by_one_row_an_experiment() -> None:
    job = JobFactory()
    ValueChange.objects.all().delete()
    make_runs(job, [("succeeded", "1x1", [("m", 1.0, "s")], {}, {})] * 300)
    assert ValueChange.objects.count() == 2  # by its runs, and by their measurements


def test_one_process_stores_at_a_time() -> None:
    RunFactory(state="succeeded")
    is_held, is_over = threading.Event(), threading.Event()

    def hold_lock() -> None:
        try:
            with try_lock(stored_values.LOCK) as is_mine:
                assert is_mine
                is_held.set()
                is_over.wait(60)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        holder = pool.submit(hold_lock)
        try:
            assert is_held.wait(60)
            assert store_changed_values() == 0
        finally:
            is_over.set()
        holder.result(60)
    assert store_changed_values() == 1


def test_what_a_worker_does_not_reach_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [RunFactory(state="succeeded") for _ in range(3)]
    first = find_longest_waiting()
    assert first == runs[0].experiment_id
    monkeypatch.setattr(stored_values, "PORTION", 2)
    monkeypatch.setattr(stored_values, "BUDGET_SECONDS", -1)
    assert store_changed_values() == 0
    monkeypatch.setattr(stored_values, "BUDGET_SECONDS", 60)
    assert store_changed_values() == 3
    assert find_longest_waiting() is None


def test_the_clock_asks_once_a_minute_where_runs_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(clock, "enqueue_store_values", asked.append)
    run: Run = RunFactory(state="succeeded")
    asked_at: dict[str, float] = {}
    for now in (0, 59, 60):
        clock.enqueue_stored_values(asked_at, now)
    assert asked == [run.experiment_id] * 2
    store_changed_values()
    clock.enqueue_stored_values(asked_at, 120)
    assert len(asked) == 2


def test_stored_values_are_read_by_one_statement_and_an_index() -> None:
    for _ in range(3):
        RunFactory(state="succeeded")
    store_changed_values()
    with CaptureQueriesContext(connection) as captured:
        assert len(fetch_values([RUNS], set(), COLUMNS)) == 3
    assert len(captured) == 1
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {captured[0]['sql']}")
        assert "experiment_value_by_key" in str(cursor.fetchall())


BEFORE = "0121_saved_views_of_experiments"


@pytest.mark.django_db(transaction=True)
def test_experiments_from_before_are_stored_after_an_interrupted_migration() -> None:
    run: Run = RunFactory(state="succeeded")
    Measurement.objects.create(run=run, metric="m", value=1.0, unit="s")
    migration = import_module("experiments.migrations.0122_experiment_values_of_before")
    try:
        go_back_to(BEFORE)
        Run.objects.filter(pk=run.pk).update(state="failed")
        Run.objects.filter(pk=run.pk).update(state="succeeded")
        go_back_to("0122_experiment_values")
        with connection.cursor() as cursor:  # interrupted behind some of its triggers
            cursor.execute(migration.NOTE)
            for trigger in migration.TRIGGERS[:3]:
                cursor.execute(trigger)
    finally:
        call_command("migrate", "experiments", verbosity=0)
    assert list_changed() == {run.experiment_id}
    assert read_rows(list_changed()) == compute_rows()
    store_changed_values()
    assert read_rows(set()) == compute_rows() != set()


def test_an_experiment_that_cannot_be_stored_stops_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    jobs = [JobFactory() for _ in range(3)]
    for job in jobs:
        make_runs(job, [(Run.State.SUCCEEDED, "1x1", [("m", 1.0, "s")], {}, {})])
    bad = jobs[1].experiment_id
    with connection.cursor() as cursor:
        cursor.execute(f"""
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE 'out of range' USING ERRCODE = 'numeric_value_out_of_range'; END $$;
            CREATE TRIGGER refuse BEFORE INSERT ON {ExperimentValue._meta.db_table}
            FOR EACH ROW WHEN (NEW.experiment_id = {bad}) EXECUTE FUNCTION refuse()
        """)
    assert store_changed_values() == 2
    assert list_changed() == {bad}
    assert {*ExperimentValue.objects.values_list("experiment_id", flat=True)} == {
        jobs[0].experiment_id,
        jobs[2].experiment_id,
    }
    assert f"The values of experiment {bad} cannot be stored." in caplog.text
    assert read_rows({bad}) == compute_rows(), "readers compute it"
