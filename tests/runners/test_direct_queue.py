"""Jobs that share this machine: who has it, who waits, and in which order."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from runners.jobs import JobSpec
from runners.runner import Runner
from runners.schedulers import Direct, Status
from runners.transports import Local
from tests.runners.direct_jobs import finished, gates, says, started, until, visible, waiting


def test_one_job_at_a_time_has_the_machine(runner, block, program, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    first = block(program(f"cat '{gate}'"), uid="first")
    second = block(program("true"), uid="second")
    ids = [runner.submit(first)]
    until(started(first))
    ids.append(runner.submit(second))
    reason = "the machine is taken; jobs ahead of this one: 1"
    until(lambda: runner.poll(ids)[ids[1]].reason == reason)
    assert runner.poll(ids) == {
        ids[0]: Status("running", "", "running"),
        ids[1]: Status("queued", reason, "queued"),
    }
    assert runner.find(second) == ids[1]
    gate.write_text("open")
    assert finished(runner, second, ids[1]).exit_code == 0
    assert finished(runner, first, ids[0]).runs["r0"].output_tail == "open"


def test_a_job_in_its_login_profile_is_starting_and_keeps_its_place(
    runner, block, program, home, tmp_path
):
    """It came first and runs first, though the other one is ready before it."""
    gate = gates(tmp_path, "p")["p"]
    log = tmp_path / "log"
    profile = home / ".bash_profile"
    profile.write_text(f"cd /; cat '{gate}' >/dev/null\n")
    first = block(program(f"echo first >>'{log}'"), uid="first")
    ids = [runner.submit(first)]
    assert runner.poll(ids) == {
        ids[0]: Status("queued", "its login profile is being read", "starting")
    }
    held = open(gate, "wb")  # noqa: SIM115 - the first job's profile reads from it
    profile.unlink()
    second = block(program(f"echo second >>'{log}'"), uid="second")
    ids.append(runner.submit(second))
    waiting(runner, ids[1], "the machine is taken; jobs ahead of this one: 1")
    held.close()
    for job, job_id in zip((first, second), ids, strict=True):
        assert finished(runner, job, job_id).exit_code == 0
    assert log.read_text() == "first\nsecond\n"


def test_jobs_run_in_the_order_in_which_they_were_sent(ssh, block, program, tmp_path):
    runner = Runner(ssh, Direct())
    gate, log = gates(tmp_path, "a")["a"], tmp_path / "log"
    jobs = [block(program(f"cat '{gate}'"), uid="first")]
    jobs += [block(program(f"echo {n} >>'{log}'"), uid=f"u{n}") for n in range(5)]
    ids = [runner.submit(job) for job in jobs]
    for ahead, job_id in enumerate(ids[1:], start=1):
        waiting(runner, job_id, f"the machine is taken; jobs ahead of this one: {ahead}")
    gate.write_text("open")
    for job, job_id in zip(jobs, ids, strict=True):
        assert finished(runner, job, job_id).exit_code == 0
    assert log.read_text().split() == ["0", "1", "2", "3", "4"]


def test_a_program_that_outlives_its_script_still_has_the_machine(ssh, block, program, tmp_path):
    runner = Runner(ssh, Direct())
    gate = gates(tmp_path, "a")["a"]
    first = block(program(f"echo here; cat '{gate}'"), uid="first")
    second = block(program("true"), uid="second")
    ids = [runner.submit(first)]
    until(lambda: says(first, "here"))
    os.killpg(int(ids[0].partition("-")[0]), signal.SIGKILL)
    ids.append(runner.submit(second))
    waiting(runner, ids[1], "the machine is taken; jobs ahead of this one: 1")
    assert list(runner.poll(ids)) == ids[1:]
    gate.write_text("open")
    assert finished(runner, second, ids[1]).exit_code == 0


def test_jobs_that_fit_run_side_by_side_where_that_is_allowed(ssh, block, program, tmp_path):
    runner = Runner(ssh, Direct())
    gate = gates(tmp_path, "abc")
    shared = {"gpus_on_node": 4, "side_by_side": True}

    def job(name: str, gpus: int, **changes: int) -> JobSpec:
        shows = program(f'echo "$CUDA_VISIBLE_DEVICES"; cat "{gate[name]}"')
        return block(shows, uid=name, gpus_per_node=gpus, **{**shared, **changes})

    first, second, third = job("a", 1), job("b", 2), job("c", 2)
    alone = block(program("true"), uid="d", **shared)  # no GPUs: it wants the whole machine
    ids = [runner.submit(each) for each in (first, second)]
    until(started(second))
    assert [status.state for status in runner.poll(ids).values()] == ["running", "running"]
    ids += [runner.submit(each) for each in (third, alone)]
    waiting(runner, ids[2], "too few GPUs are free: 1, wanted: 2")
    waiting(runner, ids[3], "the machine is taken; jobs ahead of this one: 3")

    gate["a"].write_text("")
    assert visible(finished(runner, first, ids[0])) == "0"
    until(started(third))
    gate["b"].write_text("")
    assert visible(finished(runner, second, ids[1])) == "1,2"
    assert runner.poll(ids)[ids[3]].state == "queued"
    gate["c"].write_text("")
    assert visible(finished(runner, third, ids[2])) == "0,3"
    assert finished(runner, alone, ids[3]).exit_code == 0


def test_nobody_overtakes_a_job_that_wants_the_machine_alone(ssh, block, program, tmp_path):
    runner = Runner(ssh, Direct())
    gate = gates(tmp_path, "a")["a"]
    shared = {"gpus_per_node": 1, "gpus_on_node": 4, "side_by_side": True}
    jobs = [
        block(program(f"cat '{gate}'"), uid="first", **shared),
        block(program("true"), uid="alone", gpus_per_node=1),
        block(program("true"), uid="last", **shared),
    ]
    ids = [runner.submit(job) for job in jobs]
    waiting(runner, ids[1], "the machine is taken; jobs ahead of this one: 1")
    waiting(runner, ids[2], "the machine is taken; jobs ahead of this one: 2")
    gate.write_text("open")
    ends = [finished(runner, job, job_id) for job, job_id in zip(jobs, ids, strict=True)]
    began = [record.runs["r0"].began for record in ends]
    assert began == sorted(began)
    assert ends[0].runs["r0"].ended <= began[1]


def test_the_gpus_of_a_dead_job_are_taken_over_and_those_of_a_person_are_not(
    ssh, block, program, tmp_path
):
    runner = Runner(ssh, Direct())
    resources = {"gpus_per_node": 2, "gpus_on_node": 4}
    dead = block(program("echo here; exec sleep 60"), uid="dead", **resources)
    job_id = runner.submit(dead)
    until(lambda: says(dead, "here"))
    program_id = Path(dead.directory) / ".process"
    os.killpg(int(job_id.partition("-")[0]), signal.SIGKILL)
    os.killpg(int(program_id.read_text()), signal.SIGKILL)
    queue = Path(dead.directory).parent.parent / f"machine-{os.uname().nodename}"
    assert {path.name for path in queue.glob("gpu-*")} == {"gpu-0", "gpu-1"}
    (queue / "gpu-2").mkdir()  # a person keeps it

    shows = program('echo "$CUDA_VISIBLE_DEVICES"')
    job = block(shows, uid="next", **{**resources, "gpus_per_node": 3})
    assert visible(finished(runner, job, runner.submit(job))) == "0,1,3"
    assert {path.name for path in queue.glob("*-*") if (path / "job").exists()} == {
        *("gpu-0", "gpu-1", "gpu-3")
    }
    too_many = block(shows, uid="many", **{**resources, "gpus_per_node": 4})
    job_id = runner.submit(too_many)
    waiting(runner, job_id, "too few GPUs are free: 3, wanted: 4")
    (queue / "gpu-2").rmdir()
    assert visible(finished(runner, too_many, job_id)) == "0,1,2,3"


def test_only_gpus_that_the_login_profile_leaves_are_taken(runner, block, program, home):
    (home / ".bash_profile").write_text("export CUDA_VISIBLE_DEVICES=3,GPU-8d/1,5\n")
    shows = program('echo "$CUDA_VISIBLE_DEVICES"')
    job = block(shows, gpus_per_node=2, gpus_on_node=8)
    assert visible(finished(runner, job, runner.submit(job))) == "3,GPU-8d/1"


def test_many_jobs_at_once_each_get_a_place_and_the_machine(ssh, block, program, tmp_path):
    """Sent by eight connections at the same time: no two run together."""
    log = tmp_path / "log"
    jobs = [block(program(f"echo in >>'{log}'; echo out >>'{log}'"), uid=f"u{n}") for n in range(8)]
    runners = [Runner(Local(), Direct()) for _ in jobs]
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda pair: pair[0].submit(pair[1]), zip(runners, jobs, strict=True)))
    runner = Runner(ssh, Direct())
    for job, job_id in zip(jobs, ids, strict=True):
        assert finished(runner, job, job_id).exit_code == 0
    assert log.read_text().split() == ["in", "out"] * 8
