"""Jobs of steps, which measure nothing, for real: local transport, no scheduler."""

from pathlib import Path

import pytest

from runners.jobs import JobSpec, Resources, Step
from runners.records import Record, read_record
from runners.runner import Runner
from runners.schedulers import Direct
from runners.scripts import render
from runners.transports import Local
from tests.runners.direct_jobs import until
from tests.runners.golden_scripts import BARE_METAL, block


@pytest.fixture
def runner(home: Path) -> Runner:
    return Runner(Local(), Direct())


def operation(tmp_path: Path, *steps: Step, **more: object) -> JobSpec:
    directory = tmp_path / "work $(x) 'dir'" / "jobs" / "c1-1"
    defaults = {"uid": "c1", "name": "tare-c1-1", "directory": str(directory), "runs": ()}
    resources = Resources(time_limit_seconds=60)
    return JobSpec(**{**defaults, "steps": steps, "resources": resources, **more})  # type: ignore[arg-type]


def ended(runner: Runner, job: JobSpec) -> Record:
    runner.submit(job)
    until((Path(job.directory) / "exit_code").exists)
    return read_record(runner.collect(job.directory))


def test_steps_follow_each_other_in_the_jobs_directory_and_find_what_was_sent(runner, tmp_path):
    job = operation(
        tmp_path,
        Step('Reading it\'s "lock"', ("cat", "lock.txt")),
        Step("Writing", ("sh", "-c", 'echo "{}" >result.json; echo "$WORD"')),
        files=(("lock.txt", b"numpy==2\n"),),
        setup_lines=("export WORD=from-set-up",),
    )
    record = ended(runner, job)
    assert record.exit_code == 0
    assert record.failed_step == ""
    assert "numpy==2\nfrom-set-up" in record.output_tail
    assert record.result == b"{}\n"
    steps = [line for line in record.journal if line["event"] == "step"]
    assert [(line["doing"], line["number"], line["of"]) for line in steps] == [
        ('Reading it\'s "lock"', 1, 2),
        ("Writing", 2, 2),
    ]


def test_the_first_step_that_fails_ends_the_job_and_is_named(runner, tmp_path):
    job = operation(
        tmp_path,
        Step("Converting", ("sh", "-c", "echo no space; exit 7")),
        Step("Never", ("touch", "never")),
    )
    record = ended(runner, job)
    assert record.exit_code == 1
    assert record.failed_step == "Converting: exit code 7"
    assert "no space" in record.output_tail
    assert not (Path(job.directory) / "never").exists()


def test_a_set_up_that_fails_is_named(runner, tmp_path):
    job = operation(tmp_path, Step("Never", ("touch", "never")), setup_lines=("(exit 3)",))
    assert ended(runner, job).failed_step == "set-up: exit code 3"


def test_an_operation_can_be_cancelled(runner, tmp_path):
    job = operation(tmp_path, Step("Waiting", ("sleep", "600")), Step("Never", ("touch", "never")))
    scheduler_id = runner.submit(job)
    until((Path(job.directory) / ".process").exists)
    runner.cancel([scheduler_id])
    until((Path(job.directory) / "exit_code").exists)
    assert read_record(runner.collect(job.directory)).exit_code == 143
    assert not (Path(job.directory) / "never").exists()


def test_runs_and_steps_do_not_mix(tmp_path):
    runs = block(BARE_METAL).runs
    with pytest.raises(ValueError, match="not both"):
        render(operation(tmp_path, Step("x", ("true",)), runs=runs), Direct())


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".x", "a b"])
def test_files_that_are_sent_have_plain_names(tmp_path, name):
    with pytest.raises(ValueError, match="plain name"):
        render(operation(tmp_path, Step("x", ("true",)), files=((name, b""),)), Direct())
