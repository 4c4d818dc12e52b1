"""What a run leaves besides its numbers never counts against it, however large or odd it is."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from experiments.models import Cluster, Environment, Experiment, Job, Run, RunFile
from runners import directories
from tests.conftest import finish, tick_until
from tests.experiments.execution.test_command_runs import launched, sent

pytestmark = pytest.mark.django_db


def run_program(
    here: Cluster, bare: Environment, program: str, **parameters: Any
) -> tuple[Experiment, Run]:
    """Run a program in both environments; the first environment's run."""
    files = sent(train=program)
    made = launched(here, bare, {"argv": ["{python}", "train.py"], "files": files, **parameters})
    finish(made)
    run = made.runs.order_by("position").first()
    assert run
    return made, run


def by_pattern(take: str, *, name: str = "speed") -> dict[str, Any]:
    return {
        "name": name,
        "unit": "images/s",
        "better": "higher",
        "find": r"speed ([\d.]+)",
        "take": take,
    }


def test_a_checkpoint_and_much_output_cost_no_run(here: Cluster, bare: Environment) -> None:
    """9 MB of output and a checkpoint of 20 MB: both stay, and are named with their check sums."""
    program = """
import os
for step in range(150_000):
    print("step", step, "speed", "5.0" if step % 2 else "7.0", "." * 40)
open("model.ckpt", "wb").write(b"w" * 20_000_000)
os.makedirs(".cache/kernels")
open(".cache/kernels/big", "wb").write(b"c" * 10_000_000)
"""
    _, run = run_program(here, bare, program, read="patterns", metrics=[by_pattern("mean")])
    assert (run.state, run.message) == ("succeeded", "")
    assert run.measurements.get(metric="speed").value == 6.0
    left = {file.path: file for file in run.files.all()}
    checkpoint = left["model.ckpt"]
    assert (checkpoint.size_bytes, checkpoint.state) == (20_000_000, RunFile.State.STAYED)
    assert checkpoint.sha256 == hashlib.sha256(b"w" * 20_000_000).hexdigest()
    assert left["output.txt"].size_bytes > 9_000_000
    assert left["output.txt"].state == RunFile.State.SAME
    assert ".cache/kernels/big" not in left
    assert (run.files_bytes or 0) > 39_000_000
    assert run.output_tail.endswith("." * 40)


def test_more_than_one_transfer_holds_fails_nothing(here: Cluster, bare: Environment) -> None:
    """Once, 256 MiB in all ended every run of the block."""
    program = """
for number in range(40):
    open(f"part{number}", "wb").truncate(8_000_000)
open("huge", "wb").truncate(60_000_000_000)
"""
    made, run = run_program(here, bare, program, read="nothing")
    assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}, run.message
    assert run.files.count() == 41
    huge = run.files.get(path="huge")
    assert (huge.size_bytes, huge.sha256, huge.state) == (60_000_000_000, "", "stayed")
    assert not huge.can_be_fetched


def test_five_thousand_files_are_counted_and_the_largest_named(
    here: Cluster, bare: Environment
) -> None:
    program = """
for number in range(5_000):
    open(f"shard-{number:05}", "w").write("x" * number)
"""
    _, run = run_program(here, bare, program, read="nothing")
    assert run.state == "succeeded", run.message
    assert (run.files_count or 0) > 5_000
    assert run.files.count() == 500
    assert [file.path for file in run.files.all()][:2] == ["shard-04999", "shard-04998"]


def test_odd_names_are_named(here: Cluster, bare: Environment) -> None:
    program = r"""
import os
for name in (b"caf\xe9", b"two\nlines", b" spaces ", b"back\\slash", "größe\u2028".encode()):
    open(name, "w").write("x")
os.mkfifo("pipe")
os.symlink("/etc/passwd", "link")
os.mkdir("locked", 0)
"""
    _, run = run_program(here, bare, program, read="nothing")
    assert run.state == "succeeded", run.message
    left = {file.path: file for file in run.files.all()}
    assert set(left) == {r"caf\xe9", "two\nlines", " spaces ", "back\\slash", "größe\u2028"}
    assert {file.state for file in left.values()} == {"same"}
    assert [path for path, file in left.items() if not file.can_be_fetched] == [r"caf\xe9"]


def test_a_file_of_the_programs_that_differs_is_named_and_costs_nothing(
    here: Cluster, bare: Environment
) -> None:
    files = sent(train="open('notes', 'w').write('before')")
    parameters = {"argv": ["{python}", "train.py"], "files": files, "read": "nothing"}
    made = launched(here, bare, parameters)
    job = made.jobs.get()
    ended = Job.objects.filter(pk=job.pk, state=Job.State.COLLECTING)
    with mock.patch("experiments.execution.tick.collect"):
        tick_until(made.cluster, ended.exists)
    job.refresh_from_db()
    for notes in Path(job.directory).glob("runs/*/notes"):
        notes.write_text("after")
    finish(made)
    for run in made.runs.all():
        assert run.state == "succeeded", run.message
        assert run.files.get(path="notes").state == RunFile.State.DIFFERS


class TestOutputTooLargeToRead:
    """Of what is larger than Tare reads, only what its end can tell becomes a number."""

    PROGRAM = """
print("speed 1.0")
for step in range(200_000):
    print("speed 2.0 " + "." * 40)
print("speed 3.0")
"""

    @pytest.fixture(autouse=True)
    def _small_limits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(directories, "OUR_FILE_LIMIT", 1_000_000)
        monkeypatch.setattr(directories, "END_LIMIT", 10_000)

    def test_the_last_match_is_taken_and_said(self, here: Cluster, bare: Environment) -> None:
        metrics = [by_pattern("last"), by_pattern("mean", name="mean")]
        _, run = run_program(here, bare, self.PROGRAM, read="patterns", metrics=metrics)
        assert run.state == "succeeded", run.message
        assert run.measurements.get(metric="speed").value == 3.0
        assert not run.measurements.filter(metric="mean").exists()
        assert "the last match was taken for speed" in run.message
        assert "left out: mean" in run.message

    def test_a_mean_over_all_is_not_known(self, here: Cluster, bare: Environment) -> None:
        metrics = [by_pattern("mean")]
        _, run = run_program(here, bare, self.PROGRAM, read="patterns", metrics=metrics)
        assert (run.state, run.reason) == ("failed", "too large")
        assert "speed cannot be known" in run.message
        assert not run.measurements.exists()
        assert "speed 3.0" in run.output_tail

    def test_a_report_is_read_whole_or_not_at_all(self, here: Cluster, bare: Environment) -> None:
        program = """
import os
with open(os.environ["TARE_RESULT"] + "l", "w") as report:
    for step in range(100_000):
        report.write('{"step": {"step_time": 0.01}}\\n')
"""
        _, run = run_program(here, bare, program)
        assert (run.state, run.reason) == ("failed", "too large")
        assert "MiB" in run.message
