"""Tare claims directories of jobs that never began: no copy of such a job executes anything."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from runners.claims import CLAIM_TEXT
from runners.errors import TryAgain
from runners.job_failures import name_failure
from runners.jobs import EnvironmentSpec, JobSpec
from runners.records import read_record
from runners.runner import Runner
from runners.schedulers import JobEnding, Slurm
from runners.scripts import render_job_files
from runners.transports import Completed, Local
from tests.runners.direct_jobs import finished
from tests.sending import send_files

Block = Callable[..., JobSpec]
Program = Callable[..., EnvironmentSpec]


def send(runner: Runner, job: JobSpec) -> JobSpec:
    """Write a job's directory. Nothing is submitted: no lock makes copies of it wait."""
    send_files(runner.transport, job.directory, render_job_files(job, Slurm()))
    return job


def start_copy(job: JobSpec, number: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", "job.sh"],
        cwd=job.directory,
        env={**os.environ, "SLURM_JOB_ID": str(number)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_copy_that_comes_after_the_claim_steps_aside(
    runner: Runner, block: Block, program: Program, tmp_path: Path
) -> None:
    job = send(runner, block(program(f"echo ran >>'{tmp_path}/ran'")))
    assert runner.claim([job.directory]) == {job.directory}
    before = runner.collect(job.directory)
    late = start_copy(job, 7)
    told, _ = late.communicate()
    assert late.returncode == 0
    assert told.strip() == (
        "Tare has claimed these runs while nothing knew of job 7: it steps aside."
    )
    assert not (tmp_path / "ran").exists()
    assert runner.collect(job.directory) == before
    assert before["started"].decode().strip() == CLAIM_TEXT
    assert read_record(before).started_by is None, "no job of the scheduler's has begun"
    assert runner.find_started([job]) == {}


def test_to_claim_again_gives_the_same_answer(
    runner: Runner, block: Block, program: Program
) -> None:
    """As after a worker that died before it could store the first one."""
    job = send(runner, block(program("true")))
    assert [runner.claim([job.directory]) for _ in range(3)] == [{job.directory}] * 3
    assert not [path for path in os.listdir(job.directory) if path.startswith(".claim")]


def test_a_job_that_has_begun_keeps_its_claim(
    runner: Runner, block: Block, program: Program
) -> None:
    job = block(program("true"))
    job_id = runner.submit(job)
    finished(runner, job, job_id)
    assert runner.claim([job.directory]) == set()
    for sign in ("journal.ndjson", "exit_code"):  # whoever has removed its other files
        os.remove(f"{job.directory}/{sign}")
        assert runner.claim([job.directory]) == set()
    assert runner.find(job) == job_id


@pytest.mark.parametrize("sign", ["journal.ndjson", "exit_code"])
def test_signs_of_a_beginning_prevent_the_claim(
    runner: Runner, block: Block, program: Program, sign: str
) -> None:
    job = send(runner, block(program("true")))
    Path(job.directory, sign).write_text("")
    assert runner.claim([job.directory]) == set()
    assert not Path(job.directory, "started").exists()


def test_what_is_no_directory_of_a_job_is_not_claimed(
    runner: Runner, block: Block, program: Program, tmp_path: Path
) -> None:
    """Of a directory that was deleted nobody knows whether the job had begun in it."""
    jobs = [send(runner, block(program("true"), uid=f"u{number}")) for number in range(3)]
    deleted, emptied, link = (Path(job.directory) for job in jobs)
    shutil.rmtree(deleted)
    (emptied / "job.sh").unlink()
    link.rename(tmp_path / "elsewhere")
    link.symlink_to(tmp_path / "elsewhere")
    whole = send(runner, block(program("true"), uid="whole"))
    directories = [*map(str, (deleted, emptied, link)), whole.directory]
    assert runner.claim(directories) == {whole.directory}
    assert not deleted.exists()
    assert not (tmp_path / "elsewhere/started").exists()


def test_a_pipe_in_place_of_the_claim_keeps_no_other_waiting(
    runner: Runner, block: Block, program: Program
) -> None:
    """As a program may leave it that has removed all signs of its job and took too long."""
    odd, whole = (send(runner, block(program("true"), uid=uid)) for uid in ("odd", "whole"))
    os.mkfifo(f"{odd.directory}/started")
    assert runner.claim([odd.directory, whole.directory]) == {whole.directory}


def test_where_there_are_no_hard_links_nothing_is_claimed(
    runner: Runner, block: Block, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = send(runner, block(program("true")))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ln").symlink_to("/bin/false")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert runner.claim([job.directory]) == set()


@pytest.mark.parametrize("rival", range(4))
def test_of_tare_and_copies_of_the_job_one_has_the_claim(
    runner: Runner, block: Block, program: Program, tmp_path: Path, rival: int
) -> None:
    job = send(runner, block(program(f"echo ran >>'{tmp_path}/ran'")))
    copies = [start_copy(job, number) for number in range(rival)]
    claimed = runner.claim([job.directory])
    copies += [start_copy(job, number) for number in range(rival, 4)]
    assert [copy.wait() for copy in copies] == [0] * 4
    for copy in copies:
        copy.communicate()
    executions = (tmp_path / "ran").read_text() if (tmp_path / "ran").exists() else ""
    assert executions == ("" if claimed else "ran\n")
    assert rival or claimed, "nobody else was there"


def test_a_job_whose_files_were_deleted_while_it_waited_executes_nothing(
    runner: Runner, block: Block, program: Program, tmp_path: Path
) -> None:
    """Slurm has kept its script, and makes the directory anew for its output."""
    job = send(runner, block(program(f"echo ran >>'{tmp_path}/ran'")))
    directory = Path(job.directory)
    script = (directory / "job.sh").read_text()
    shutil.rmtree(directory)
    directory.mkdir()
    done = subprocess.run(
        ["bash"], input=script, cwd=directory, capture_output=True, text=True, check=False
    )
    assert done.returncode == 66
    assert list(directory.iterdir()) == []
    assert not (tmp_path / "ran").exists()
    (directory / "scheduler-20.out").write_text(done.stdout)
    record = read_record(runner.collect(job.directory))
    ending = JobEnding("FAILED", "66:0", "", "node1", "failed", "sacct")
    evidence = f"its output: The files of this job are no longer in {directory}: nothing is run."
    for said_by in (ending, None):
        assert name_failure(record, said_by) == ("files deleted", evidence)


def test_what_a_login_prints_is_no_claim() -> None:
    def noisy(self: Local, argv: object, **options: object) -> Completed:
        return Completed(0, b"1\nWelcome 2\nclaimed 2\nclaimed 9\nclaimed 3 \n", b"")

    with mock.patch.object(Local, "run", noisy):
        assert Runner(Local(), Slurm()).claim(["/a", "/b", "/c"]) == {"/b"}


def test_no_answer_is_no_claim() -> None:
    def broken(self: Local, argv: object, **options: object) -> Completed:
        return Completed(126, b"claimed 1\n", b"sh: no\n")

    with mock.patch.object(Local, "run", broken), pytest.raises(TryAgain):
        Runner(Local(), Slurm()).claim(["/a"])
