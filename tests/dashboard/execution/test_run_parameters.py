"""Lists of runs by any parameter: rows that PostgreSQL writes, and an index in their order."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Decimal
from functools import wraps
from importlib import import_module
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboard.execution.run_columns import Column
from dashboard.execution.run_conditions import OF_NUMBERS, make_condition
from dashboard.execution.run_filters import apply_conditions
from dashboard.execution.run_order import RunsInOrder
from experiments.models import Experiment, Job, Run, RunParameter
from tests.dashboard.conftest import People, Site, measured
from tests.experiments.test_migrations import go_back_to, read_models
from tests.factories import JobFactory, RunFactory
from tests.many_runs import add_runs, refresh_statistics

pytestmark = pytest.mark.django_db

BEFORE = "0118_code_paths"
FILLING = "0120_run_parameters_of_before"
SEED = Column("parameter.seed", "Seed", "parameter")
MISSING = object()
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=320)
SCALARS = st.one_of(
    st.integers(-(10**40), 10**40),
    st.integers(-3, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.sampled_from(["", "7", "07", "NaN", "nan", "Infinity", "-1", "yes", "null"]),
    TEXTS,
)
VALUES = st.one_of(SCALARS, st.none(), st.just(MISSING))


def make_spec(value: Any) -> dict[str, Any]:
    return {"workload": {"parameters": {} if value is MISSING else {"seed": value}}}


def taken_back(test: Callable[..., None]) -> Callable[..., None]:
    """Take back what an example has stored."""

    @wraps(test)
    def run(**given_values: Any) -> None:
        with transaction.atomic():
            test(**given_values)
            transaction.set_rollback(True)

    return run


def make_runs(job: Job, values: list[Any]) -> list[Run]:
    shared = {
        "experiment": job.experiment,
        "job": job,
        "workload": job.workload,
        "environment": job.experiment.baseline,
        "scale": job.scale,
    }
    return Run.objects.bulk_create(
        Run(**shared, repeat=place, position=place, spec=make_spec(value))
        for place, value in enumerate(values)
    )


def rank(value: Any) -> tuple[int, Any]:
    """Return the place of a value: texts, then numbers by their exact size, then no and yes."""
    if isinstance(value, str):
        return 0, value[:301]
    if isinstance(value, bool):
        return 2, value
    return 1, Decimal(json.dumps(value))


def has_place(value: Any) -> bool:
    return value is not MISSING and value is not None


def order(values: list[Any], *, descending: bool) -> list[int]:
    """Return the places of values in their order; those that are missing come last."""
    known = [place for place, value in enumerate(values) if has_place(value)]
    missing = [place for place, value in enumerate(values) if not has_place(value)]
    known.sort(key=lambda place: (rank(values[place]), place), reverse=descending)
    return known + sorted(missing, reverse=descending)


@pytest.fixture
def job(site: Site, people: People) -> Job:
    experiment = measured(site, people.owner, blocks=0)
    made: Job = JobFactory(experiment=experiment, workload=site.workload)
    return made


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(values=st.lists(VALUES, max_size=12), descending=st.booleans(), data=st.data())
@taken_back
def test_runs_stand_in_the_order_of_their_values(
    job: Job, values: list[Any], descending: bool, data: st.DataObject
) -> None:
    runs = make_runs(job, values)
    keys = [runs[place].pk for place in order(values, descending=descending)]
    listed = RunsInOrder(Run.objects.all(), (), (), SEED, descending=descending)
    assert [row.fields["uid"] for row in listed.iterate()] == [
        run.uid for key in keys for run in runs if run.pk == key
    ]
    start = data.draw(st.integers(0, len(keys)))
    assert [row.fields["uid"] for row in listed[start : start + 3]] == [
        run.uid for key in keys[start : start + 3] for run in runs if run.pk == key
    ]
    behind = keys[start - 1] if start else None
    assert listed.list_keys_after(behind, 4) == keys[start : start + 4]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(values=st.lists(VALUES, max_size=8), data=st.data())
@taken_back
def test_a_filter_finds_the_values_that_pages_show_alike(
    job: Job, values: list[Any], data: st.DataObject
) -> None:
    """And the order by the same parameter changes nothing of what it finds."""
    runs = make_runs(job, values)
    places = [place for place, value in enumerate(values) if has_place(value)]
    place = data.draw(st.sampled_from(places)) if places else None
    value = "7" if place is None else values[place]
    text = {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
    operator = data.draw(st.sampled_from(OF_NUMBERS))
    try:
        condition = make_condition(SEED, operator, text)
    except ValueError:
        return
    found = set(apply_conditions(Run.objects.all(), [condition]).values_list("pk", flat=True))
    is_padded = text.strip() != text  # conditions are read without blanks around their value
    if place is not None and operator == "=" and not is_padded and condition.value:
        assert runs[place].pk in found
    if operator == "!=" and condition.value:
        equal = make_condition(SEED, "=", text)
        others = apply_conditions(Run.objects.all(), [equal]).values_list("pk", flat=True)
        assert found == {run.pk for run in runs} - set(others)
    for descending in (False, True):
        listed = RunsInOrder(Run.objects.all(), [condition], (), SEED, descending=descending)
        assert {run.pk for run in runs if run.uid in _list_uids(listed)} == found


def _list_uids(listed: RunsInOrder) -> set[str]:
    return {row.fields["uid"] for row in listed.iterate()}


def list_stored(run: Run) -> dict[str, Any]:
    return dict(RunParameter.objects.filter(run=run).values_list("name", "value"))


def test_a_whole_number_is_found_with_all_its_digits(job: Job) -> None:
    first, second = make_runs(job, [2**63 + 1, 2**63])
    condition = make_condition(SEED, "=", str(2**63 + 1))
    assert list(apply_conditions(Run.objects.all(), [condition])) == [first]
    assert second.pk


@pytest.mark.parametrize(
    ("parameters", "stored"),
    [
        ({"a": 1, "b": "x", "c": True, "d": 0.1}, {"a": 1, "b": "x", "c": True, "d": 0.1}),
        ({"a": None, "b": {"f": "x"}, "c": [], "d": [{"name": "loss"}]}, {}),
        ({"argv": ["python3", "train.py"]}, {"argv": '["python3", "train.py"]'}),
        ({"a": "ä" * 5000, "b": ["ö" * 5000]}, {"a": "ä" * 301, "b": '["' + "ö" * 299}),
        ({"a": 10**4000, "😀" * 300: 1, "": 2}, {"": 2}),
        ({"😀" * 200: "😀" * 5000}, {"😀" * 200: "😀" * 301}),
        ("nonsense", {}),
        ([1], {}),
        (None, {}),
    ],
)
def test_odd_parameters_stop_no_run(parameters: Any, stored: dict[str, Any], job: Job) -> None:
    run = RunFactory(job=job, spec={"workload": {"parameters": parameters}})
    assert list_stored(run) == stored


@pytest.mark.parametrize("spec", [{}, [], "x", 3, {"workload": []}, {"workload": None}])
def test_a_run_without_parameters_has_none(spec: Any, job: Job) -> None:
    assert list_stored(RunFactory(job=job, spec=spec)) == {}


def test_rows_follow_what_a_run_is_started_with(job: Job) -> None:
    run, other = make_runs(job, [1, 1])
    Run.objects.filter(pk=run.pk).update(spec=make_spec(2))
    assert list_stored(run) == {"seed": 2}
    run.refresh_from_db()
    run.spec = {}
    run.save()
    assert list_stored(run) == {}
    assert list_stored(other) == {"seed": 1}
    other.delete()
    assert not RunParameter.objects.exists()


def test_nobody_learns_from_a_parameter_what_they_may_not_view(people: People, job: Job) -> None:
    make_runs(job, [7, 8])
    Experiment.objects.update(visibility="private")
    for query in ({"sort": "-parameter.seed"}, {"where": "parameter.seed=7"}):
        own = people.client("owner").get("/runs/", query).context["listing"].page
        assert own.paginator.count == (2 if "sort" in query else 1)
        assert not people.client("other").get("/runs/", query).context["listing"].page.object_list


@pytest.mark.parametrize(
    "query",
    [
        {"sort": "-parameter.seed"},
        {"sort": "parameter.seed"},
        {"where": "parameter.seed=7"},
        {"sort": "-parameter.seed", "where": "parameter.seed>=990"},
    ],
)
def test_an_index_serves_lists_by_a_parameter(
    query: dict[str, str], as_owner: Client, job: Job
) -> None:
    """No statement reads all runs but the count, which is asked now and then."""
    add_runs(job.experiment, 3000)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE experiments_run SET spec = jsonb_build_object('workload', "
            "jsonb_build_object('parameters', jsonb_build_object('seed', id % 1000)))"
        )
    refresh_statistics()
    with CaptureQueriesContext(connection) as captured:
        assert as_owner.get("/runs/", query).status_code == 200
    keys = [
        row["sql"]
        for row in captured
        if "experiments_runparameter" in row["sql"] and "COUNT(" not in row["sql"]
    ]
    assert keys
    with connection.cursor() as cursor:
        for statement in keys:
            cursor.execute(f"EXPLAIN {statement}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
            assert "run_parameter_by_value" in plan, plan
            assert "Sort  " not in plan or "where" in query, plan


@pytest.mark.django_db(transaction=True)
def test_runs_from_before_have_rows_of_their_parameters() -> None:
    run = RunFactory(spec=make_spec(3))
    try:
        go_back_to(BEFORE)
        assert "runparameter" not in read_models(BEFORE)
        Run.objects.filter(pk=run.pk).update(spec=make_spec(4))
    finally:
        call_command("migrate", "experiments", verbosity=0)
    assert list_stored(run) == {"seed": 4}


@pytest.mark.django_db(transaction=True)
def test_the_index_is_made_anew_where_its_migration_was_interrupted() -> None:
    """PostgreSQL leaves an index without its rows then, which has the name and serves nothing."""
    try:
        go_back_to("0120_run_parameters")
        with connection.cursor() as cursor:
            cursor.execute("CREATE INDEX run_parameter_by_value ON experiments_runparameter (name)")
    finally:
        with connection.cursor() as cursor:  # where it fails others need it
            call_command("migrate", "experiments", verbosity=0)
            cursor.execute(
                "SELECT pg_get_indexdef('run_parameter_by_value'::regclass), indisvalid "
                "FROM pg_index WHERE indexrelid = 'run_parameter_by_value'::regclass"
            )
            definition, is_valid = cursor.fetchone()
    assert definition.endswith("(name, value, run_id)")
    assert is_valid


@pytest.mark.django_db(transaction=True)
def test_a_run_may_change_while_runs_from_before_are_filled_in() -> None:
    """Whichever is done first, what the run says now stays."""
    run: Run = RunFactory(spec=make_spec(3))
    RunParameter.objects.filter(run=run).delete()
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(import_module(f"experiments.migrations.{FILLING}").FILL)
            changed = pool.submit(_change_spec, run, make_spec(4))
            _wait_for_another(cursor, changed)
        changed.result()
    assert list_stored(run) == {"seed": 4}


def _wait_for_another(cursor: Any, changed: Future[None]) -> None:
    """Wait until another process of PostgreSQL waits for this one, or is done."""
    for end in itertools.repeat(time.monotonic() + 30):
        cursor.execute(
            "SELECT FROM pg_locks WHERE NOT granted "
            "AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
        )
        if cursor.rowcount or changed.done():
            return
        assert time.monotonic() < end


def _change_spec(run: Run, spec: Any) -> None:
    try:
        Run.objects.filter(pk=run.pk).update(spec=spec)
    finally:
        connection.close()
