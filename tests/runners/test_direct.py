"""Whole jobs, for real, on this machine: local transport, no scheduler, bare metal."""

import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from runners.errors import NotNow, TryAgain
from runners.job_failures import name_failure
from runners.jobs import EnvironmentSpec
from runners.journals import parse_journal
from runners.records import read_record
from runners.runner import Runner
from runners.runtimes import RUNTIMES
from runners.schedulers import Direct, Slurm, Status
from runners.scripts import render_job_files
from runners.transports import Completed
from runners.workloads import WORKLOADS
from tests.runners.direct_jobs import events, finished, says, started, until
from tests.sending import send_files

CONTAINERS = [kind for kind, runtime in RUNTIMES.items() if runtime.formats]


def python(program: Callable[..., EnvironmentSpec], script: str) -> EnvironmentSpec:
    """Return an environment whose program is a script of Python."""
    return program(f"exec {shlex.quote(sys.executable)} -c {shlex.quote(script)}")


def test_a_block_runs_and_leaves_its_record(runner, block):
    environment = EnvironmentSpec(label="here", runtime="bare_metal", python=sys.executable)
    job = block(environment)
    assert runner.find(job) is None
    job_id = runner.submit(job)
    record = finished(runner, job, job_id)
    assert (record.exit_code, record.started_by, record.bad_checksums) == (0, job_id, [])
    (run,), (block_run,) = record.runs.values(), job.runs
    assert run.exit_code == 0, run.output_tail
    assert run.began < run.ended
    assert run.snapshot["python"]["executable"] == sys.executable
    assert WORKLOADS["blas"].read(run.files, {}).measurements["step_time"][0] > 0
    assert record.snapshot["hostname"] == os.uname().nodename
    assert set(record.snapshot) >= {"uname", "cpuinfo", "meminfo", "os-release", "scheduler"}
    assert record.snapshot["os-release"] == Path("/etc/os-release").read_text().strip()
    assert f"runs/{block_run.directory_name}/result.json" in record.checksums
    assert not [name for name in record.checksums if name.startswith("payload/")]
    assert Path(job.directory, "payload", ".sha256sums").exists(), "its files are listed there"


def test_runs_keep_their_order_and_a_failure_stops_no_other(runner, block, program):
    job = block(
        program("echo first; exit 7"),
        program("exit 0", runtime="apptainer", executable="sh", image_path="/none/it's $(x).sif"),
        program("exit 0", setup_lines=("if then",)),
        program("kill -9 $$"),
        program('echo "$HOME" "$PWD" "$PYTHONNOUSERSITE"', setup_lines=("exit_code=1",)),
        cooldown_seconds=1,
    )
    record = finished(runner, job, runner.submit(job))
    runs = list(record.runs.values())
    assert [run.exit_code for run in runs] == [7, None, None, 137, 0]
    assert [run.failure for run in runs] == [
        *("", "image missing: /none/it's $(x).sif", "set-up failed (exit code 2)", "", "")
    ]
    home = job.locate_run(job.runs[4])
    assert [runs[0].output_tail, runs[4].output_tail] == ["first", f"{home} {home} 1"]
    assert record.exit_code == 0
    assert events(record) == [
        *("job started", "page cache", "run began r0", "program ended r0", "run ended r0"),
        *("cool-down", "run ended r1", "cool-down", "run ended r2", "cool-down"),
        *("run began r3", "program ended r3", "run ended r3", "cool-down"),
        *("run began r4", "program ended r4", "run ended r4"),
        "job ended",
    ]


@pytest.mark.parametrize("more", ["", "two\nlines"], ids=["few", "a name of two lines"])
@pytest.mark.parametrize("count", [0, 189, 400], ids=["none more", "almost 200", "many"])
def test_all_that_a_run_leaves_is_listed_whatever_its_name(runner, block, program, more, count):
    names = [b" with spaces ", b"back\\slash", b"1 .", b"odd", b"$HOME", b"*", b"caf\xe9", b"-z"]
    names += [f"{number}.bin".encode() for number in range(count)] + [more.encode()] * bool(more)
    script = f"import sys; [open(name, 'wb').write(name) for name in {names!r}]"
    record = finished(runner, job := block(python(program, script)), runner.submit(job))
    folder = f"runs/{job.runs[0].directory_name}"
    expected = {os.fsdecode(name): hashlib.sha256(name).hexdigest() for name in names}
    listed = {path.removeprefix(f"{folder}/"): sum_ for path, sum_ in record.checksums.items()}
    assert {name: listed.get(name) for name in expected} == expected
    assert record.bad_checksums == []


@pytest.mark.parametrize("size", [2**29, 2**31])
def test_what_numbers_come_from_is_listed_before_a_huge_file(runner, block, program, size):
    script = f"[open(f'a{{i}}', 'wb').truncate({size}) for i in (0, 1, 2)]; print('a speed')"
    record = finished(runner, job := block(python(program, script)), runner.submit(job))
    folder = f"runs/{job.runs[0].directory_name}"
    assert f"{folder}/output.txt" in record.checksums
    listed = [name for name in ("a0", "a1", "a2") if f"{folder}/{name}" in record.checksums]
    assert len(listed) == (1 if size == 2**29 else 0), "1 GiB at most is read"


def test_a_runtime_that_the_node_lacks_is_named(runner, block, program):
    job = block(*(program("", runtime=kind, executable="/none/it's $(x)") for kind in CONTAINERS))
    record = finished(runner, job, runner.submit(job))
    node = os.uname().nodename
    for run in record.runs.values():
        assert run.failure == f"runtime missing: {node} has no /none/it's $(x)"


def test_nothing_of_a_run_is_left_for_the_next(runner, block, program):
    """Not even what has left its session and its parents, as daemons do."""
    daemon = "setsid sh -c 'echo $$ >daemon; exec sleep 1000' & until [ -s daemon ]; do :; done"
    # Nobody may have waited for it yet: then it is a zombie.
    look = "cd /proc/$(cat ../0-r0/daemon) 2>/dev/null || exit 0; grep -q '^State:.Z' status"
    job = block(program(daemon), program(look))
    record = finished(runner, job, runner.submit(job))
    assert [run.exit_code for run in record.runs.values()] == [0, 0]
    assert "left behind r0" in events(record)
    assert "left behind r1" not in events(record)


def test_typed_text_reaches_the_program_as_typed(runner, block, program):
    typed = "a b\n\"q\" 'q' $(id) `id` \\ Größe"
    job = block(program('printf %s "$TYPED"', variables=(("TYPED", typed),)))
    files = runner.collect(job.directory) if finished(runner, job, runner.submit(job)) else {}
    assert files["runs/0-r0/output.txt"].decode() == typed


def test_the_command_can_be_run_again_as_it_was_kept(runner, block, program):
    job = block(program('echo "$# $1"'), gpus_per_node=2)
    (run,) = finished(runner, job, runner.submit(job)).runs.values()
    assert (
        subprocess.check_output(["bash", "-c", run.command], text=True).strip() == run.output_tail
    )


def test_gpus_that_are_asked_for_are_visible(runner, block, program):
    job = block(program('echo "${CUDA_VISIBLE_DEVICES-none}"'), gpus_per_node=2)
    (run,) = finished(runner, job, runner.submit(job)).runs.values()
    assert run.output_tail == "0,1"


@pytest.mark.parametrize(
    "said", ["No devices were found", "Failed to initialize NVML: GPU access blocked"]
)
def test_a_node_without_any_gpu_ends_the_job_before_its_first_run(
    runner, block, program, tmp_path, home, said
):
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\necho '{said}'\nexit 6\n")
    tool.chmod(0o755)
    (home / ".bash_profile").write_text(f"PATH='{tool.parent}':$PATH\n")
    job = block(program("echo ran"), gpus_per_node=1)
    record = finished(runner, job, runner.submit(job))
    assert record.exit_code == 1
    assert not {"run began", "run began r0"} & set(events(record))
    kind, evidence = name_failure(record, None)
    assert (kind, evidence.endswith(f"nvidia-smi says: {said}")) == ("no GPU", True)
    tool.write_text("#!/bin/sh\necho 'Attached GPUs : 1'\necho 'GPU 00000000:00:06.0'\n")
    whole = block(program("echo ran"), uid="u2", gpus_per_node=1)
    assert finished(runner, whole, runner.submit(whole)).exit_code == 0


def test_nothing_of_the_sites_environment_reaches_a_job(runner, block, program, monkeypatch):
    monkeypatch.setenv("TARE_SECRET", "hush")
    job = block(program("env"))
    record = finished(runner, job, runner.submit(job))
    assert "HOME=" in record.runs["r0"].output_tail
    assert "hush" not in str(runner.collect(job.directory))
    assert record.exit_code == 0


def test_a_job_is_executed_once(runner, block, program, tmp_path):
    """A second copy, sent while the first one runs, waits, steps aside and changes nothing."""
    job = block(program(f"echo ran >>'{tmp_path}/ran'"))
    first = runner.submit(job)
    second = runner.submit(job)
    record = finished(runner, job, second)
    finished(runner, job, first)
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert record.started_by in (first, second)
    assert runner.find(job) == record.started_by
    before = runner.collect(job.directory)
    late = subprocess.run(
        ["bash", "job.sh"], cwd=job.directory, capture_output=True, text=True, check=False
    )
    assert late.returncode == 0
    assert "steps aside" in late.stdout
    assert runner.collect(job.directory) == before
    assert read_record(before).bad_checksums == []


def test_a_job_that_cannot_write_its_exit_code_says_so_by_its_own(runner, block, program, tmp_path):
    """As on a disk that has become full: the accounts then tell what the files cannot."""
    job = block(program("true"))
    send_files(runner.transport, job.directory, render_job_files(job, Slurm()))
    (tmp_path / "bin").mkdir()
    full = tmp_path / "bin" / "mv"
    full.write_text('#!/bin/sh\ncase $* in */jobs/*/runs/*) exec /bin/mv "$@" ;; esac\nexit 1\n')
    full.chmod(0o755)
    variables = {**os.environ, "SLURM_JOB_ID": "7", "PATH": f"{full.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "job.sh"], cwd=job.directory, env=variables, check=False)
    assert done.returncode == 73
    assert not (Path(job.directory) / "exit_code").exists()


def test_two_copies_at_the_very_same_time_agree_on_one(runner, block, program, tmp_path):
    job = block(program(f"echo ran >>'{tmp_path}/ran'"))
    copies = 8
    # No lock makes these wait.
    send_files(runner.transport, job.directory, render_job_files(job, Slurm()))
    processes = [
        subprocess.Popen(
            ["bash", "job.sh"],
            cwd=job.directory,
            env={**os.environ, "SLURM_JOB_ID": str(number)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for number in range(copies)
    ]
    assert [process.wait() for process in processes] == [0] * copies
    assert (tmp_path / "ran").read_text() == "ran\n"
    record = read_record(runner.collect(job.directory))
    assert record.journal[0]["job"] == record.started_by
    assert record.bad_checksums == []


def test_a_job_outlives_the_connection_that_sent_it(ssh, block, program, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    job = block(program(f"cat '{gate}'"))
    runner = Runner(ssh, Direct())
    job_id = runner.submit(job)
    until(started(job))
    ssh.close()
    gate.write_text("open")
    record = finished(runner, job, job_id)
    assert (record.exit_code, record.started_by) == (0, job_id)
    assert record.runs["r0"].output_tail == "open"


def test_a_cancelled_job_says_so(runner, block, program):
    job = block(program("echo here; exec sleep 60"), program("true"))
    job_id = runner.submit(job)
    output = Path(job.directory) / "runs/0-r0/output.txt"
    until(lambda: output.exists() and "here" in output.read_text())
    runner.cancel([job_id])
    record = finished(runner, job, job_id)
    assert record.exit_code == 143
    assert [run.exit_code for run in record.runs.values()] == [143, None]
    assert record.runs["r0"].output_tail == "here"
    assert events(record)[-3:] == ["terminated", "run ended r0", "job ended"]
    assert record.bad_checksums == []
    runner.cancel([job_id])


def test_a_job_that_waits_can_be_cancelled(runner, block, program, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    first, second = block(program(f"cat '{gate}'"), uid="first"), block(program("true"), uid="b")
    ids = [runner.submit(first)]
    until(started(first))
    ids.append(runner.submit(second))
    runner.cancel(ids[1:])
    assert finished(runner, second, ids[1]).started_by is None
    gate.write_text("open")
    assert finished(runner, first, ids[0]).exit_code == 0


def test_the_time_limit_is_kept(runner, block, program):
    job = block(program("exec sleep 60"), time_limit_seconds=1)
    record = finished(runner, job, runner.submit(job))
    assert record.runs["r0"].exit_code == 143
    assert name_failure(record, None) == ("time-out", "the time limit was reached")


def test_a_run_that_takes_too_long_is_ended_and_the_next_one_follows(runner, block, program):
    """Whatever it started ends with it, and does not disturb the next run."""
    slow = program("sleep 61 & sleep 62 & wait")
    job = block(slow, program("pgrep -f 'sleep 6[12]' || echo alone"))
    runs = (replace(job.runs[0], time_limit_seconds=1), job.runs[1])
    job = replace(job, runs=runs)
    record = finished(runner, job, runner.submit(job))
    late, following = record.runs.values()
    assert (late.exit_code, late.failure) == (
        None,
        "time limit reached: the run was ended after 1 s",
    )
    assert following.output_tail == "alone"
    assert record.exit_code == 0


def test_a_killed_job_leaves_what_it_had_and_is_lost(runner, block, program):
    job = block(program("echo so far; exec sleep 60"))
    job_id = runner.submit(job)
    output = Path(job.locate_run(job.runs[0])) / "output.txt"
    until(lambda: output.exists() and "so far" in output.read_text())
    program_id = int((Path(job.directory) / ".process").read_text())
    os.killpg(int(job_id.partition("-")[0]), signal.SIGKILL)
    record = finished(runner, job, job_id)
    assert record.exit_code is None
    assert record.runs["r0"].output_tail == "so far"
    assert record.runs["r0"].began
    assert events(record)[-1] == "run began r0"
    assert name_failure(record, None)[0] == "lost"
    os.killpg(program_id, signal.SIGKILL)  # it has the machine's lock until it ends


def test_journals_are_read_on_from_an_offset_in_one_command(runner, block, program, monkeypatch):
    jobs = [block(program("true"), uid=uid) for uid in ("u1", "u2", "u3")]
    for job in jobs[:2]:
        finished(runner, job, runner.submit(job))
    commands = []
    run = runner.transport.run
    monkeypatch.setattr(
        runner.transport, "run", lambda argv, **kw: commands.append(argv) or run(argv, **kw)
    )
    grown = runner.read_journals({job.directory: 0 for job in jobs})
    assert list(grown) == [job.directory for job in jobs[:2]]
    for job in jobs[:2]:
        assert grown[job.directory] == (Path(job.directory) / "journal.ndjson").read_bytes()
    lines, _ = parse_journal(grown[jobs[1].directory])
    whole, half = len(grown[jobs[0].directory]), len(json.dumps(lines[0])) + 1
    more = runner.read_journals({jobs[0].directory: whole, jobs[1].directory: half})
    assert more == {jobs[1].directory: grown[jobs[1].directory][half:]}
    assert len(commands) == 2
    assert runner.read_journals({}) == {}


def test_nothing_is_asked_where_nothing_is_to_be_known(runner, monkeypatch):
    monkeypatch.setattr(runner.transport, "run", None)
    assert runner.poll([]) == {}
    assert runner.read_endings([]) == {}
    assert runner.read_endings(["1-1"]) == {}
    runner.cancel([])


def test_a_program_that_leaves_pipes_keeps_no_visit_waiting(runner, block, program):
    job = block(program("echo here; exec sleep 60"))
    job_id = runner.submit(job)
    until(lambda: says(job, "here"))
    directory = Path(job.directory)
    os.remove(directory / "started")
    os.remove(directory / "scheduler.id")
    for name in ("scheduler.id", f"scheduler.waits-{job_id}", ".tare-room.part"):
        os.mkfifo(directory / name)
    assert runner.poll([job_id]) == {
        job_id: Status("queued", "its login profile is being read", "starting")
    }
    assert runner.find(job) is None
    assert runner.why_not_written(job.directory) is None
    runner.cancel([job_id])
    until(lambda: not runner.poll([job_id]))


def test_a_process_id_that_came_round_again_is_another_job(runner):
    assert runner.poll([f"{os.getpid()}-1", "999999999-5", "nonsense", "1-"]) == {}


@pytest.mark.parametrize("printed", [b"<!DOCTYPE html>\n", b"Welcome\n1-1 running\n"])
def test_an_answer_that_is_none_says_nothing_about_jobs(printed):
    with pytest.raises(TryAgain, match="no answer of ours"):
        Direct().parse_status(Completed(0, printed, b""))


def test_an_id_is_found_behind_what_the_log_in_prints():
    answer = Completed(0, b"Welcome\n17-4711\n", b"")
    assert Direct().parse_submit(answer) == Direct().parse_find(answer) == "17-4711"
    assert Direct().parse_find(Completed(0, b"Welcome\n", b"")) is None
    with pytest.raises(TryAgain, match="no job id was printed: Welcome"):
        Direct().parse_submit(Completed(0, b"Welcome\n", b""))


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("sh: 1: cannot create /w/machine-x/lock: Permission denied", "work directory"),
        ("mkdir: cannot create directory '/w': No space left on device", "disk full"),
    ],
)
def test_what_keeps_a_job_from_being_started_is_the_machines(message, kind):
    with pytest.raises(NotNow, match=message[:20]) as caught:
        Direct().parse_submit(Completed(2, b"", message.encode()))
    assert (caught.value.kind, caught.value.scope) == (kind, "site")


def test_a_machine_that_does_not_answer_is_worth_trying_again(runner, monkeypatch):
    monkeypatch.setattr(runner.transport, "run", lambda *a, **k: Completed(127, b"", b"no sh"))
    for ask in (lambda: runner.poll(["1-1"]), lambda: runner.read_journals({"/x": 0})):
        with pytest.raises(TryAgain, match="no sh"):
            ask()


def test_a_directory_that_a_program_makes_anew_is_no_record(runner, block, program):
    """Somebody deletes a job's directory while it runs, and its program makes it once more."""
    directory = block(program("true")).directory
    job = block(program(f'rm -rf {shlex.quote(directory)}; mkdir -p "$PWD"'), program("true"))
    assert job.directory == directory
    record = finished(runner, job, runner.submit(job))
    assert record.exit_code is None


def test_a_program_does_not_begin_after_the_signal_that_found_none_to_end(runner, block, program):
    """Between the line that a run began and its program: it would have run until it was killed."""
    job = block(program("echo began", setup_lines=(': >"$job/.terminated"',)))
    record = finished(runner, job, runner.submit(job))
    (run,) = record.runs.values()
    assert run.exit_code == 143
    assert "began" not in run.output_tail
