"""Several jobs in two commands: what arrives, what is said of each, and where the payload lies."""

from __future__ import annotations

import io
import os
import secrets
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.errors import NotNow, Refused, TryAgain
from runners.jobs import EnvironmentSpec, JobSpec, Resources, RunSpec
from runners.payload import hash_payload, read_payload_files
from runners.runner import Runner
from runners.schedulers.direct import Direct
from runners.schedulers.slurm import Slurm
from runners.schedulers.submit_loop import split_answer
from runners.submissions import SEND_JOBS, NotReached
from runners.transports import Completed, Local


@pytest.fixture
def sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Slurm that takes each script whose name has no "bad", and numbers them by its log."""
    folder = tmp_path / "bin"
    folder.mkdir()
    log = tmp_path / "log"
    program = folder / "sbatch"
    program.write_text(
        f'''#!/bin/sh
case $2 in *bad*) echo "sbatch: error: invalid qos" >&2; exit 1 ;; *warned*) echo "= 7" >&2 ;; esac
cat >/dev/null
echo "$2" >>"{log}"
wc -l <"{log}"
'''
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return log


def make_jobs(work: Path, *names: str) -> list[JobSpec]:
    environment = EnvironmentSpec("bare", "bare_metal")
    parameters = {"steps": 6, "burn_in": 1, "matrix_size": 16, "decomposition_size": 8}
    run = RunSpec("0c0de", 0, "blas", parameters, environment)
    return [
        JobSpec(name, f"tare-{name}-1", f"{work}/jobs/{name}-1", (run,), Resources(60))
        for name in names
    ]


def test_jobs_are_submitted_in_order_up_to_the_first_that_is_refused(
    sbatch: Path, tmp_path: Path
) -> None:
    work = tmp_path / "it's work"
    jobs = make_jobs(work, "first", "warned", "bad", "after")
    first, second, refused, after = Runner(Local(), Slurm()).submit_all(jobs)
    assert (first, second) == ("1", "2")
    assert isinstance(refused, NotNow)
    assert "invalid qos" in str(refused)
    assert isinstance(after, NotReached)
    submitted = sbatch.read_text().splitlines()
    assert submitted == [f"{work}/jobs/first-1/job.sh", f"{work}/jobs/warned-1/job.sh"]


def test_each_job_finds_all_its_files_and_the_payload_lies_there_once(
    sbatch: Path, tmp_path: Path
) -> None:
    runner, (first, second, third) = (
        Runner(Local(), Slurm()),
        make_jobs(tmp_path / "work", "a", "b", "c"),
    )
    assert runner.submit_all([first, second]) == ["1", "2"]
    assert runner.submit_all([third]) == ["3"]
    shared = tmp_path / "work/payload" / hash_payload()
    for job in (first, second, third):
        folder = Path(job.directory)
        assert (folder / "job.sh").stat().st_mode & 0o111
        assert (folder / "runs/0-0c0de/spec.json").exists()
        for name, content in read_payload_files().items():
            assert (folder / "payload" / name).read_bytes() == content
            assert (folder / "payload" / name).samefile(shared / name)
    assert not list((tmp_path / "work").glob(".incoming-*"))


@pytest.mark.parametrize("harm", ["changed", "missing", "emptied"])
def test_a_payload_that_somebody_has_changed_is_sent_anew(
    sbatch: Path, tmp_path: Path, harm: str
) -> None:
    runner, (first, second) = Runner(Local(), Slurm()), make_jobs(tmp_path / "work", "a", "b")
    runner.submit_all([first])
    main = tmp_path / "work/payload" / hash_payload() / "main.py"
    if harm == "changed":
        main.write_text("print('mine')")
    elif harm == "missing":
        main.unlink()
    else:
        for path in main.parent.rglob("*.py"):
            path.unlink()
        (main.parent / ".sha256sums").unlink()
    assert runner.submit_all([second]) == ["2"]
    assert (Path(second.directory) / "payload/main.py").read_bytes() == read_payload_files()[
        "main.py"
    ]


def send_archive(work: Path, links: dict[str, str], name: str = "x-1") -> Completed:
    """Send what a thief of the key would: an archive with links beside a job's files."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path, target in links.items():
            member = tarfile.TarInfo(path)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
        for path in (f"{name}/job.sh", f"{name}/authorized_keys"):
            if not any(path.startswith(f"{link}/") for link in links):
                tar.addfile(tarfile.TarInfo(path), io.BytesIO())
    argv = ["sh", "-c", SEND_JOBS, "send", str(work), "jobs", secrets.token_hex(16), hash_payload()]
    return Local().run([*argv, name], stdin=archive.getvalue())


@pytest.mark.parametrize("link", ["x-1", "x-1/runs", "other"])
def test_no_link_leads_out_of_the_work_directory(sbatch: Path, tmp_path: Path, link: str) -> None:
    work, outside = tmp_path / "work", tmp_path / "ssh"
    outside.mkdir()
    Runner(Local(), Slurm()).submit_all(make_jobs(work, "first"))  # the payload is there
    assert send_archive(work, {link: str(outside)}).returncode == 1
    assert not (work / "jobs/x-1").exists()
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("place", ["jobs/x-1", "jobs", "payload"])
def test_a_link_on_the_cluster_is_not_followed(sbatch: Path, tmp_path: Path, place: str) -> None:
    work, outside = tmp_path / "work", tmp_path / "ssh"
    outside.mkdir()
    Runner(Local(), Slurm()).submit_all(make_jobs(work, "first"))
    if (work / place).exists():
        (work / place).rename(work / "aside")
    (work / place).symlink_to(outside)
    done = send_archive(work, {})
    assert done.returncode == 1
    assert b"is a link" in done.stderr
    assert list(outside.iterdir()) == []


def test_what_was_left_of_interrupted_transfers_goes_after_a_day(
    sbatch: Path, tmp_path: Path
) -> None:
    old, new = tmp_path / "work/.incoming-0a", tmp_path / "work/.incoming-0b"
    for folder in (old, new):
        (folder / "jobs").mkdir(parents=True)
    os.utime(old, (0, 0))
    Runner(Local(), Slurm()).submit_all(make_jobs(tmp_path / "work", "a"))
    assert (old.exists(), new.exists()) == (False, True)


def test_a_job_that_has_started_keeps_its_files(sbatch: Path, tmp_path: Path) -> None:
    """Its answer was lost, and it runs already when it is sent once more: the claim decides."""
    runner, (job,) = Runner(Local(), Slurm()), make_jobs(tmp_path / "work", "a")
    runner.submit_all([job])
    started = Path(job.directory, "started")
    started.write_text("1\n")
    Path(job.directory, "journal.ndjson").write_text("its own\n")
    Path(job.directory, "job.sh").write_text("its own\n")
    assert runner.submit_all([job]) == ["2"]
    assert Path(job.directory, "job.sh").read_text() == "its own\n"
    assert runner.find_started([job, replace(job, directory="/nowhere")]) == {job.directory: "1"}


def test_what_an_attempt_has_left_is_replaced_and_what_waits_there_stays(
    sbatch: Path, tmp_path: Path
) -> None:
    runner, (job,) = Runner(Local(), Slurm()), make_jobs(tmp_path / "work", "a")
    runner.submit_all([job])
    folder = Path(job.directory)
    inode = folder.stat().st_ino
    (folder / "scheduler.id").write_text("12-34\n")
    (folder / "job.sh").write_text("cut")
    (folder / "payload/main.py").unlink()
    assert runner.submit_all([job]) == ["2"]
    assert folder.stat().st_ino == inode, "a job that waits there has it as its working directory"
    assert (folder / "scheduler.id").read_text() == "12-34\n"
    assert (folder / "job.sh").read_text().startswith("#!/bin/bash")
    assert (folder / "payload/main.py").exists()


def test_a_work_directory_that_cannot_be_written_is_a_no_for_now(tmp_path: Path) -> None:
    (tmp_path / "work").write_text("a file")
    with pytest.raises(NotNow) as caught:
        Runner(Local(), Slurm()).submit_all(make_jobs(tmp_path / "work", "a", "b"))
    assert (caught.value.kind, caught.value.scope) == ("work directory", "site")


def test_without_sbatch_nothing_is_known_to_be_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = make_jobs(tmp_path / "work", "a", "b")
    first, second = Runner(Local(), Slurm()).submit_all(jobs)
    assert isinstance(first, TryAgain)
    assert "sbatch" in str(first)
    assert isinstance(second, NotReached)


def test_without_a_scheduler_each_gets_its_process(tmp_path: Path) -> None:
    runner, jobs = Runner(Local(), Direct()), make_jobs(tmp_path / "work", "a", "b", "c")
    ids = runner.submit_all(jobs)
    assert len({job_id for job_id in ids if isinstance(job_id, str)}) == 3
    runner.cancel([str(job_id) for job_id in ids])


class TestAnswers:
    def test_one_that_was_cut_short_may_have_been_submitted(self) -> None:
        done = Completed(0, b"welcome\n= 1\n17\n\n= 1 0\n= 2\n18\n", b"= 1\n= 2\n")
        first, second = split_answer(done)
        assert isinstance(first, Completed)
        assert isinstance(second, TryAgain)

    def test_an_answer_about_none_is_returned_whole(self) -> None:
        done = Completed(127, b"", b"bash: not found")
        assert split_answer(done) == [done]

    def test_an_answer_out_of_order_is_none(self) -> None:
        with pytest.raises(TryAgain):
            split_answer(Completed(0, b"= 2\n17\n\n= 2 0\n", b"= 2\n"))

    @given(
        st.lists(
            st.tuples(
                st.text(st.characters(codec="ascii", exclude_characters="=\r"), max_size=20),
                st.text(st.characters(codec="ascii", exclude_characters="=\r"), max_size=20),
                st.integers(0, 255),
            ),
            min_size=1,
            max_size=5,
        )
    )
    def test_each_gets_what_was_printed_about_it(self, rows: list[tuple[str, str, int]]) -> None:
        stdout = stderr = ""
        for number, (printed, errors, code) in enumerate(rows, start=1):
            stdout += f"\n= {number}\n{printed}\n= {number} {code}\n"
            stderr += f"\n= {number}\n{errors}"
        answers = split_answer(Completed(0, stdout.encode(), stderr.encode()))
        for answer, (printed, errors, code) in zip(answers, rows, strict=True):
            assert isinstance(answer, Completed)
            assert answer.returncode == code
            assert answer.stdout.decode() == printed
            assert answer.stderr.decode().rstrip("\n") == errors.rstrip("\n")


def test_a_refusal_of_the_jobs_own_is_told_apart(sbatch: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin/sbatch"
    program.write_text("#!/bin/sh\necho 'sbatch: error: Invalid option --nope' >&2; exit 1\n")
    (outcome,) = Runner(Local(), Slurm()).submit_all(make_jobs(tmp_path / "work", "a"))
    assert isinstance(outcome, Refused)
