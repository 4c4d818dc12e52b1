"""Outcomes of many runs are stored in a few statements, each run's by itself if it has to be."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from django.db import DataError, OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments import execution
from experiments.execution import keeping, run_ends
from experiments.execution.moves import Move, move_each
from experiments.execution.series_copy import copy_series
from experiments.models import Event, Experiment, Job, Run, Series, Snapshot
from experiments.snapshots import replace_paths, restore_paths
from runners.directories import Fetched
from runners.runner import Runner
from tests.conftest import collecting_each, finish, tick_until
from tests.factories import RunFactory

pytestmark = pytest.mark.django_db
Make = Callable[..., Experiment]


def wait_until_all_have_ended(made: Experiment) -> list[Job]:
    """Visit until only the files of its jobs are to be fetched; return the jobs."""
    collecting = made.jobs.filter(state=Job.State.COLLECTING)
    with collecting_each(mock.Mock()):
        tick_until(made.cluster, lambda: collecting.count() == made.jobs.count())
    return list(collecting)


def list_statements(queries: CaptureQueriesContext) -> list[str]:
    """Return the verb of each statement, with its table if it has one."""
    tables = r'(?:FROM|INTO|UPDATE) "(\w+)"'
    statements = [query["sql"] for query in queries]
    return [" ".join([sql.split()[0], *re.findall(tables, sql)[:1]]) for sql in statements]


@pytest.mark.usefixtures("renewed_once")
def test_more_jobs_take_no_more_statements(
    experiment: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whether there is a sample in the time of so short a run is a matter of chance.
    monkeypatch.setattr("experiments.execution.node_samples.describe_run", lambda *_: {})
    made = experiment(repeats=8)
    jobs = wait_until_all_have_ended(made)
    # Not all were seen to run: those that were not are moved by statements of their own.
    made.runs.update(state=Run.State.RUNNING)
    statements = []
    for portion in (jobs[:2], jobs[2:]):
        others = {job.pk for job in jobs} - {job.pk for job in portion}
        waiting = made.jobs.filter(pk__in=others, state=Job.State.COLLECTING)
        keys = list(waiting.values_list("pk", flat=True))
        waiting.update(state=Job.State.DONE)  # out of the way
        with CaptureQueriesContext(connection) as queries:
            assert execution.tick(made.cluster_id) == "done"
        statements.append(list_statements(queries))
        made.jobs.filter(pk__in=keys).update(state=Job.State.COLLECTING)
    assert set(made.jobs.values_list("state", flat=True)) == {"done"}
    assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}
    few, many = statements
    assert len(many) <= len(few), set(many) ^ set(few)


def test_each_run_and_job_has_its_event_and_all_that_a_page_shows(experiment: Make) -> None:
    made = experiment(repeats=3)
    wait_until_all_have_ended(made)
    execution.tick(made.cluster_id)
    for job in made.jobs.prefetch_related("runs"):
        assert job.exit_code == 0
        assert job.collecting_attempts == 0
        assert job.ended_at
        assert job.collect_at is None
        assert Event.objects.filter(job=job, run=None, what="collecting → done").count() == 1
        for run in job.runs.all():
            assert Event.objects.filter(run=run, what="running → succeeded").count() == 1
            assert run.measurements.exists()
            assert run.series.exists()
            assert run.node
            assert run.command
            assert run.phases
            assert run.files_count


def test_one_run_that_the_database_refuses_takes_nothing_from_the_others(
    experiment: Make,
) -> None:
    made = experiment(repeats=3)
    jobs = wait_until_all_have_ended(made)
    odd = jobs[1].runs.get(environment=made.baseline)
    describe = run_ends.describe_own_end

    def add_long_node(run: Run, *rest: Any) -> run_ends.RunEnd:
        end = describe(run, *rest)
        if run.pk == odd.pk:
            return run_ends.RunEnd(run, end.to, {**end.columns, "node": "n" * 300}, end.why)
        return end

    with mock.patch.object(run_ends, "describe_own_end", add_long_node):
        assert execution.tick(made.cluster_id) == "done"
    assert set(made.jobs.values_list("state", flat=True)) == {"done"}
    odd.refresh_from_db()
    assert (odd.state, odd.reason) == ("failed", "damaged")
    others = made.runs.exclude(pk=odd.pk)
    assert set(others.values_list("state", flat=True)) == {"succeeded"}
    assert all(run.measurements.exists() for run in others)


def test_a_database_that_goes_away_leaves_all_of_them_for_the_next_visit(
    experiment: Make,
) -> None:
    made = experiment(repeats=2)
    wait_until_all_have_ended(made)
    with (
        mock.patch.object(keeping, "copy_series", side_effect=OperationalError("gone")),
        pytest.raises(OperationalError),
        transaction.atomic(),
    ):
        execution.tick(made.cluster_id)
    assert set(made.jobs.values_list("state", flat=True)) == {"collecting"}
    assert not set(made.runs.values_list("state", flat=True)) & {"succeeded", "failed"}
    finish(made)
    assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}


def test_jobs_that_failed_are_stored_together_with_what_the_scheduler_said(
    experiment: Make, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho no room; exit 9\n")
    program.chmod(0o755)
    made = experiment(repeats=3, python=str(program))
    wait_until_all_have_ended(made)
    execution.tick(made.cluster_id)
    assert set(made.jobs.values_list("state", flat=True)) == {"done"}
    crashed = made.runs.exclude(environment=made.baseline)
    assert set(crashed.values_list("state", "reason")) == {("failed", "crashed")}
    assert all("exit code 9: no room" in run.message for run in crashed)


def test_files_that_say_to_be_larger_than_any_disk_do_not_damage_their_run(
    experiment: Make,
) -> None:
    """A sparse file may say so: 8 EiB take no room on some file systems."""
    made = experiment()
    wait_until_all_have_ended(made)
    fetch = Runner.collect

    def fetch_and_add(runner: Runner, directory: str, **options: Any) -> Fetched:
        files = fetch(runner, directory, **options)
        for run in made.runs.all():
            files.sizes |= {f"{run.folder}/{name}": 2**63 - 1 for name in "ab"}
        return files

    with (
        mock.patch.object(Runner, "collect", fetch_and_add),
        mock.patch.object(Runner, "collect_all", return_value={}),
    ):
        execution.tick(made.cluster_id)
    assert set(made.runs.values_list("state", "reason")) == {("succeeded", "")}
    assert set(made.runs.values_list("files_bytes", flat=True)) == {2**63 - 1}


class TestSnapshots:
    def test_runs_on_one_machine_share_theirs(self, experiment: Make) -> None:
        made = experiment(repeats=4)
        finish(made)
        snapshots = made.runs.values_list("snapshot", flat=True)
        # The two environments have the same interpreter.
        assert len(set(snapshots)) == 1
        assert made.jobs.filter(snapshot=None).count() == 0

    def test_a_page_still_shows_the_directories_of_its_own_run(self, experiment: Make) -> None:
        made = experiment(repeats=2)
        finish(made)
        homes = set()
        for run in made.runs.select_related("job__snapshot", "snapshot"):
            assert run.snapshot
            assert run.job.directory not in json.dumps(run.snapshot.content)
            home = run.snapshot_content["inside"]["variables"]["HOME"]
            assert home == f"{run.job.directory}/{run.folder}"
            homes.add(home)
        assert len(homes) == made.runs.count()

    def test_an_older_one_that_holds_both_sides_is_read(self) -> None:
        content = {"inside": {"cpu": "EPYC"}, "outside": {"uname": "Linux"}}
        run = RunFactory(snapshot=Snapshot.objects.keep(content))
        assert run.snapshot_content == content

    @given(
        st.recursive(
            st.text() | st.integers() | st.none(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        ),
        st.sampled_from(["", "/jobs/a-1", "/jobs/a-1/runs/0-b", " and /jobs/a-1/x"]),
    )
    def test_names_of_directories_come_back(self, content: Any, path: str) -> None:
        whole = [content, path]
        named = replace_paths(whole, "/jobs/a-1", "runs/0-b")
        assert "/jobs/a-1" not in json.dumps(named)
        assert restore_paths(named, "/jobs/a-1", "runs/0-b") == whole


@pytest.fixture
def run() -> Run:
    row: Run = RunFactory(state=Run.State.PLANNED)
    return row


class TestSeriesCopy:
    NUMBERS = st.floats(allow_nan=True, allow_infinity=True)

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        values=st.lists(NUMBERS, max_size=20),
        steps=st.none() | st.lists(st.integers(0, 2**31 - 1), max_size=20),
        trend=st.none() | NUMBERS,
        metric=st.text(
            st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=100
        ),
    )
    def test_everything_comes_back(
        self,
        run: Run,
        values: list[float],
        steps: list[int] | None,
        trend: float | None,
        metric: str,
    ) -> None:
        Series.objects.all().delete()
        copy_series(
            [
                Series(run=run, metric=metric, unit="s", values=values, steps=steps, trend=trend),
                Series(run=run, metric=f"{metric}x"[-100:] + "y", unit="1", values=[1.0]),
            ][: 1 + (len(metric) < 98)]
        )
        row = Series.objects.order_by("pk").first()
        assert row
        assert (row.metric, row.steps, row.tail_means) == (metric, steps, [])
        assert list(map(repr, row.values)) == [repr(value + 0.0) for value in values]
        assert repr(row.trend) == repr(trend) or row.trend == trend

    def test_it_stores_what_django_stores(self, run: Run) -> None:
        columns: dict[str, Any] = {
            "unit": "s",
            "values": [0.1, 1e-300, -0.0, 2.5],
            "steps": [1, 5, 9, 2**31 - 1],
            "burn_in": 1,
            "shape": "warm-up",
            "block_steps": 2,
            "warm_up": 3,
            "steady_from": 4,
            "trend": -0.5,
            "trend_p": 0.25,
            "settled_mean": math.pi,
            "tail_means": [1.0, 2.0],
            "first_value": 0.1,
            "last_value": 2.5,
            "digest": "d" * 64,
        }
        Series.objects.create(run=run, metric="by Django", **columns)
        copy_series([Series(run=run, metric="by COPY", **columns)])
        names = [field.attname for field in Series._meta.concrete_fields]
        names = [name for name in names if name not in ("id", "metric")]
        first, second = Series.objects.order_by("metric").values_list(*names)
        assert first == second

    @pytest.mark.parametrize("steps", [[-1], [2**31], [2**70]])
    def test_a_step_that_the_column_does_not_hold_is_refused(
        self, run: Run, steps: list[int]
    ) -> None:
        row = Series(run=run, metric="m", unit="s", values=[1.0], steps=steps)
        with pytest.raises(ValueError, match="cannot be stored"):
            copy_series([row])

    def test_a_text_that_is_too_long_is_refused(self, run: Run) -> None:
        with pytest.raises(DataError), transaction.atomic():
            copy_series([Series(run=run, metric="m" * 101, unit="s", values=[])])


def test_a_text_that_is_too_long_for_its_column_is_not_cut_off(run: Run) -> None:
    with pytest.raises(DataError), transaction.atomic():
        move_each([Move(run, "", {"reason": "r" * 41})], Run.State.PLANNED, Run.State.FAILED)
    assert run.state == Run.State.PLANNED
