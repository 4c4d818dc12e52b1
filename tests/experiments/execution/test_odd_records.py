"""What a job leaves may be odd in any way: it never keeps another job waiting."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from django.db import OperationalError, transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from rq.timeouts import JobTimeoutException

from experiments import execution
from experiments.execution import following, keeping, lifecycle, submitting
from experiments.execution.run_ends import RunEnd
from experiments.models import Cluster, Experiment, Job, Operation, Run
from runners.directories import OUR_FILE_LIMIT
from runners.errors import Refused, TryAgain
from runners.runner import Runner
from tests.conftest import collecting_each, finish, tick_until
from tests.experiments.execution.test_execution import script
from tests.factories import EnvironmentFactory, ExperimentFactory
from tests.runners.test_untrusted import CODES, INSIDES, JOURNALS, documents, tables

pytestmark = pytest.mark.django_db

# `experiments.execution.tick` is the function too.
tick = sys.modules["experiments.execution.tick"]
Make = Callable[..., Experiment]

# Lines of a journal, of the run UID.
JOURNAL = {
    "a time beyond all dates": '{"time": 1e300, "event": "run ended", "run": "UID"}',
    "a time that is no number": '{"time": NaN, "event": "run ended", "run": "UID"}',
    "no event": '{"time": 1, "run": "UID"}',
    "a text as exit code": '{"time": 1, "event": "run ended", "run": "UID", "exit_code": "no"}',
    "NUL as node": '{"time": 1, "event": "run began", "run": "UID", "node": "a\\u0000b"}',
    "300 characters as node": '{"time": 1, "event": "run began", "run": "UID", "node": "%s"}'
    % ("n" * 300),
    "deep JSON in the journal": "[" * 100_000,
}
INSIDE = {
    "NaN inside": '{"schema": 1, "cpu": NaN}',
    "a lone surrogate inside": r'{"schema": 1, "cpu": "caf\udce9"}',
    "deep JSON inside": "[" * 100_000,
    "as deep as Python reads": '{"cpu": ' + "[" * 900 + "]" * 900 + "}",
    "GPUs that are numbers": '{"gpus": [1]}',
    "packages that are a list": '{"packages": [1]}',
}
# Texts that can be kept, once they are clean.
CLEANED = {"NUL as node", "a lone surrogate inside"}
NAMES = {"a name that is not UTF-8": b"caf\xe9"}


def waiting_program(folder: Path) -> str:
    """Return an interpreter that runs the program, and then waits until there is a file `go`."""
    path = folder / "program"
    path.write_text(
        f'#!/bin/bash\n{sys.executable} "$@"; code=$?\ntouch {folder}/done\n'
        f"until [ -e {folder}/go ]; do sleep 0.05; done\nexit $code\n"
    )
    path.chmod(0o755)
    return str(path)


def make_odd(run: Run, odd: str) -> None:
    """Leave in the record of a run that is under way what is odd."""
    job = Path(run.job.directory)
    if odd in JOURNAL:
        with (job / "journal.ndjson").open("a") as journal:
            journal.write(JOURNAL[odd].replace("UID", run.uid) + "\n")
    elif odd in INSIDE:
        (job / f"runs/{run.position}-{run.uid}/inside.json").write_text(INSIDE[odd])
    else:
        Path(os.fsdecode(os.fsencode(job / "snapshot") + b"/" + NAMES[odd])).write_text("odd")


def beside(culprit: Experiment, name: str = "second") -> Experiment:
    """Return an experiment of somebody else's on the same cluster; `name` is its environment's."""
    second = EnvironmentFactory(name=name, cluster=culprit.cluster, python=sys.executable)
    other: Experiment = ExperimentFactory(
        cluster=culprit.cluster,
        partition=None,
        baseline=culprit.baseline,
        environments=[culprit.baseline, second],
        workloads=[culprit.workloads.get()],
        scales=["1x0"],
        repeats=1,
    )
    lifecycle.launch(other, other.owner)
    return other


@pytest.mark.parametrize("odd", [*JOURNAL, *INSIDE, *NAMES])
def test_an_odd_record_stops_nobody_else(experiment: Make, tmp_path: Path, odd: str) -> None:
    culprit = experiment(python=waiting_program(tmp_path))
    cluster = culprit.cluster
    tick_until(cluster, (tmp_path / "done").exists)
    make_odd(culprit.runs.get(environment__name="other"), odd)
    assert [execution.tick(cluster.pk), execution.tick(cluster.pk)] == ["done", "done"]
    innocent = beside(culprit)
    (tmp_path / "go").touch()
    finish(innocent)
    finish(culprit)
    assert set(innocent.runs.values_list("state", flat=True)) == {"succeeded"}
    assert culprit.runs.get(environment=culprit.baseline).state == "succeeded"
    run = culprit.runs.get(environment__name="other")
    if odd in INSIDE and odd not in CLEANED:
        assert (run.state, run.reason) == ("failed", "damaged")
        assert run.message.startswith("inside.json: ")
    else:  # none of ours is missing
        assert run.state == "succeeded", run.message
    if odd in JOURNAL and odd not in CLEANED:
        assert culprit.events.filter(what="damaged journal", why__contains="line ").exists()


def cut_last_lines(journal: Path) -> None:
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:2]) + b'{"ti')


def replace_by_fifo(journal: Path) -> None:
    journal.unlink()
    os.mkfifo(journal)


def make_larger_than_is_read(journal: Path) -> None:
    with journal.open("ab") as file:
        file.truncate(OUR_FILE_LIMIT + 1)


@pytest.mark.parametrize(
    "spoil", [Path.unlink, cut_last_lines, replace_by_fifo, make_larger_than_is_read]
)
def test_runs_that_ended_well_succeed_without_their_journal(
    experiment: Make, spoil: Callable[[Path], None]
) -> None:
    """A program may remove it, and a disk that was full for a while has kept a part of it."""
    made = experiment()
    collecting = made.jobs.filter(state=Job.State.COLLECTING)
    with collecting_each(mock.Mock()):
        tick_until(made.cluster, collecting.exists)
    job = collecting.get()
    spoil(Path(job.directory) / "journal.ndjson")
    finish(made)
    assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}
    assert all(run.measurements.exists() and run.ended_at for run in made.runs.all())
    is_said = made.events.filter(what="damaged journal", why__contains="64 MiB").exists()
    assert is_said == (spoil is make_larger_than_is_read)


def test_a_variable_that_is_not_utf8_is_shown(experiment: Make) -> None:
    Cluster.objects.update(setup_lines="export OMP_FOO=$(printf 'caf\\351')")
    made = experiment()
    finish(made)
    for run in made.runs.all():
        assert run.state == "succeeded", run.message
        assert run.snapshot
        assert run.snapshot.content["inside"]["variables"]["OMP_FOO"] == "caf\\xe9"


def test_yes_is_no_number_of_steps(experiment: Make, tmp_path: Path) -> None:
    result = 'result="${2%/*}/result.json"'
    path = script(
        tmp_path,
        f'{sys.executable} "$@" && {result} && grep -q \'"burn_in": 1\' "$result" &&\n'
        'sed -i \'s/"burn_in": 1/"burn_in": true/\' "$result"',
    )
    made = experiment(python=path)
    finish(made)
    found = made.runs.values_list("environment__name", "state", "series__burn_in")
    assert {*found} == {("bare metal", "succeeded", 1), ("other", "succeeded", None)}


REPORTS = documents(tables("schema", "metrics", "series", "phases", "facts"))


# Not shrunk: each example is a visit.
@settings(
    max_examples=40,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    journal=JOURNALS,
    inside=INSIDES,
    report=REPORTS,
    started=st.binary(max_size=120),
    code=CODES,
    name=st.binary(min_size=1, max_size=9).filter(lambda name: not {*name} & {0, ord("/")}),
)
def test_whatever_a_job_leaves_its_visit_ends_well(
    experiment: Make,
    here: Cluster,
    tmp_path_factory: pytest.TempPathFactory,
    journal: bytes,
    inside: bytes,
    report: bytes,
    started: bytes,
    code: bytes,
    name: bytes,
) -> None:
    """Bytes on a disk, through a real visit into PostgreSQL: the guard has nothing to do."""
    with transaction.atomic():
        made = experiment()
        job, folder = made.jobs.get(), tmp_path_factory.mktemp("job")
        first, second = made.runs.order_by("position")
        for run in (first, second):
            own = folder / f"runs/{run.position}-{run.uid}"
            own.mkdir(parents=True)
            (own / "inside.json").write_bytes(inside)
            (own / "result.json").write_bytes(report)
            (own / "exit_code").write_bytes(b"0" if run == first else code)
        own_name = os.fsdecode(name if name not in (b".", b"..") else b"...")
        (folder / "snapshot").mkdir()
        (folder / "snapshot" / own_name).write_bytes(name)
        (own / own_name).write_bytes(name)
        (folder / "journal.ndjson").write_bytes(journal.replace(b'"a"', b'"%s"' % run.uid.encode()))
        (folder / "started").write_bytes(started)
        (folder / "exit_code").write_bytes(code)
        left = {"state": "queued", "scheduler_id": "1-1", "directory": str(folder)}
        Job.objects.filter(pk=job.pk).update(**left)
        survey = Operation.objects.create(
            **{**left, "directory": str(own)}, kind="inspect", cluster=here, owner=here.owner
        )
        assert execution.tick(here.pk) == "done"
        here.refresh_from_db()
        assert here.own_failure == ""
        for row in (job, survey):
            row.refresh_from_db()
            assert row.state in {"queued", "collecting", *Job.FINAL}
        transaction.set_rollback(True)


class TestGuard:
    """What fails in one row ends or parks that row, and its cluster's page says so."""

    def break_for(self, culprit: Experiment, name: str) -> Any:
        """Patch NAME of one of the modules of a visit to fail for the jobs of one experiment."""
        module = next(module for module in (tick, submitting, following) if hasattr(module, name))
        work = getattr(module, name)

        def fail(row: Any, *rest: Any) -> Any:
            rows = row if isinstance(row, dict) else [row]
            if any(getattr(row, "experiment_id", None) == culprit.pk for row in rows):
                raise KeyError("what nobody expected \0 \udce9")
            return work(row, *rest)

        return mock.patch.object(module, name, fail)

    @pytest.mark.parametrize(
        ("name", "state"),
        [
            ("make_spec", "failed"),
            ("follow_jobs", "done"),
            ("_describe_status", "done"),
            ("collect", "failed"),
        ],
    )
    def test_others_go_on(self, experiment: Make, name: str, state: str) -> None:
        culprit = experiment()
        innocent = beside(culprit)
        with self.break_for(culprit, name):
            finish(innocent)
            finish(culprit)
        assert set(innocent.runs.values_list("state", flat=True)) == {"succeeded"}
        assert culprit.jobs.get().state == state
        culprit.cluster.refresh_from_db()
        assert "Tare itself failed" in culprit.cluster.recent_failure
        assert "KeyError" not in culprit.cluster.recent_failure, "for administrators"
        assert "KeyError" in culprit.cluster.recent_details
        assert str(culprit.jobs.get()) in culprit.cluster.recent_failure

    def test_what_cannot_be_read_is_damaged_and_its_files_are_named(self, experiment: Make) -> None:
        culprit = experiment()
        with self.break_for(culprit, "collect"):
            finish(culprit)
        job = culprit.jobs.get()
        assert (job.state, job.reason) == ("failed", "damaged")
        assert job.directory in job.message
        for run in culprit.runs.all():
            assert (run.state, run.reason) == ("failed", "damaged")
            assert job.directory not in run.message, "its page says where its files are"

    def test_one_damaged_run_takes_nothing_from_the_others(self, experiment: Make) -> None:
        culprit = experiment()
        keep = keeping._keep_numbers

        def fail(ends: Sequence[RunEnd]) -> None:
            keep(ends)
            if any(end.run.environment_id != culprit.baseline_id and end.result for end in ends):
                raise RecursionError

        with mock.patch.object(keeping, "_keep_numbers", fail):
            finish(culprit)
        first, second = culprit.runs.order_by("environment__name")
        assert (first.state, first.measurements.exists()) == ("succeeded", True)
        assert (second.state, second.reason) == ("failed", "damaged")
        assert second.message.endswith(".")
        assert not second.message.endswith(".."), "one that has its full stop gets no second one"
        assert second.job.directory not in second.message, "its page says where its files are"
        assert not second.measurements.exists()

    def test_a_job_of_which_nobody_knows_whether_it_was_sent_can_be_cancelled(
        self, experiment: Make
    ) -> None:
        culprit = experiment()
        with mock.patch.object(Runner, "submit_all", side_effect=KeyError("id")):
            assert execution.tick(culprit.cluster_id) == "done"
        with mock.patch.object(Runner, "find", side_effect=KeyError("id")):
            assert execution.tick(culprit.cluster_id) == "done"
            assert culprit.jobs.get().state == Job.State.SUBMITTING
            lifecycle.cancel(culprit, culprit.owner)
            assert execution.tick(culprit.cluster_id) == "done"
        assert culprit.jobs.get().state == Job.State.CANCELLED

    def test_a_job_that_cannot_be_cancelled_keeps_nobody(self, experiment: Make) -> None:
        culprit = experiment()
        execution.tick(culprit.cluster_id)
        lifecycle.cancel(culprit, culprit.owner)
        with mock.patch.object(Runner, "cancel", side_effect=Refused("scancel: not yours")):
            assert execution.tick(culprit.cluster_id) == "done"
        culprit.cluster.refresh_from_db()
        assert "scancel: not yours" in culprit.cluster.recent_failure
        finish(culprit)

    def test_files_that_take_too_long_keep_nobody(self, experiment: Make) -> None:
        """A folder of a million files on a slow file system is listed in vain, each time."""
        culprit = experiment()
        other = beside(culprit)
        slow = culprit.jobs.get().pk
        real = tick.collect

        def collect_slowly(row: Job, *rest: Any) -> None:
            if row.pk == slow:
                raise TryAgain("login did not answer sh in 300 s.", kind="time-out")
            real(row, *rest)

        with collecting_each(collect_slowly):
            finish(other)
        assert set(other.runs.values_list("state", flat=True)) == {"succeeded"}
        assert culprit.jobs.get().state == Job.State.COLLECTING
        culprit.cluster.refresh_from_db()
        assert "did not answer" in culprit.cluster.recent_failure
        finish(culprit)

    @pytest.mark.parametrize("error", [OperationalError("gone"), JobTimeoutException("gone")])
    def test_what_ends_the_visit_ends_no_job(self, experiment: Make, error: Exception) -> None:
        culprit = experiment()
        collecting = culprit.jobs.filter(state=Job.State.COLLECTING)
        with collecting_each(mock.Mock()):
            tick_until(culprit.cluster, collecting.exists)
        with (
            collecting_each(mock.Mock(side_effect=error)),
            pytest.raises(type(error)),
        ):
            execution.tick(culprit.cluster_id)
        assert collecting.exists()
        culprit.cluster.refresh_from_db()
        assert culprit.cluster.last_error_kind == "Tare itself failed"
        assert "gone" not in culprit.cluster.last_error, "for administrators"
        assert f"{type(error).__name__}: gone" in culprit.cluster.recent_details
        assert culprit.cluster.retry_at
        Cluster.objects.update(retry_at=None)
        finish(culprit)
        assert set(culprit.runs.values_list("state", flat=True)) == {"succeeded"}
