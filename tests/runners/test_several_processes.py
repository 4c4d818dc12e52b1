"""Several processes of one run: what the job script says, and packed instances for real, here."""

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from runners.jobs import EnvironmentSpec, Launch
from runners.launching import build_launcher_command
from runners.records import read_record
from runners.schedulers import SCHEDULERS
from runners.scripts import render, render_job_files
from runners.workloads import WORKLOADS
from tests.runners.direct_jobs import events, finished, until
from tests.runners.golden_scripts import BARE_METAL, SITE
from tests.runners.golden_scripts import block as golden_block

SAYS = 'echo "$TARE_INSTANCE of $TARE_INSTANCES on ${CUDA_VISIBLE_DEVICES-none} at $HOME"'
SRUN = Launch("srun", nodes=2, processes_per_node=2)
MPIRUN = Launch("mpirun", nodes=2, processes_per_node=2)


def launch_argv(launch: Launch, **changes: object) -> list[str]:
    job = replace(golden_block(BARE_METAL), launch=launch, resources=replace(SITE, **changes))
    return build_launcher_command(job)


def test_srun_starts_them_all_and_ends_with_the_first_that_fails():
    assert launch_argv(SRUN) == [
        *("srun", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2", "--cpus-per-task=4"),
        "--kill-on-bad-exit=1",
    ]


def test_a_site_that_asks_for_cpus_in_its_own_way_is_left_to_it():
    assert not [word for word in launch_argv(SRUN, directives=("-c {cpus}",)) if "cpus" in word]


def test_options_are_split_as_people_write_them_and_win():
    launch = replace(MPIRUN, options=("--mca btl ^openib", "-map-by slot", "-x 'A=b c'"))
    assert launch_argv(launch) == [
        *("mpirun", "-np", "4", "--bind-to", "none", "--mca", "btl", "^openib"),
        *("-map-by", "slot", "-x", "A=b c"),
    ]
    with pytest.raises(ValueError, match="No closing quotation"):
        launch_argv(replace(MPIRUN, options=("-x 'A",)))


@pytest.mark.parametrize(("cpus", "each"), [(8, 4), (5, 2), (1, 1)])
def test_processes_share_out_the_cpus_of_a_node(cpus, each):
    job = replace(
        golden_block(BARE_METAL), launch=SRUN, resources=replace(SITE, cpus_per_node=cpus)
    )
    lines = SCHEDULERS["slurm"]().render_header(job)
    assert "#SBATCH --ntasks-per-node=2" in lines
    assert f"#SBATCH --cpus-per-task={each}" in lines


def test_a_run_of_one_process_has_nothing_of_it_in_its_script():
    script = render(golden_block(BARE_METAL), SCHEDULERS["slurm"]())
    assert not [word for word in ("hand_on", "TARE_RANK", "launch") if word in script]


def test_the_spec_says_what_each_process_may_use():
    job = golden_block(BARE_METAL)
    four = replace(SITE, gpus_per_node=4)
    packed = render_job_files(
        replace(job, launch=Launch(instances=2), resources=four), SCHEDULERS["slurm"]()
    )
    spec = json.loads(packed["runs/0-0c0de/spec.json"])
    assert (spec["nodes"], spec["gpus"], spec["instances"]) == (1, 2, 2)
    spread = replace(job, launch=SRUN, resources=replace(four, nodes=2))
    spec = json.loads(render_job_files(spread, SCHEDULERS["slurm"]())["runs/0-0c0de/spec.json"])
    assert (spec["nodes"], spec["gpus"], spec["instances"]) == (2, 4, 1)


def test_instances_have_gpus_homes_and_outputs_of_their_own(runner, block, program, monkeypatch):
    job = replace(block(program(SAYS), gpus_per_node=4, gpus_on_node=8), launch=Launch(instances=2))
    (run,) = finished(runner, job, runner.submit(job)).runs.values()
    assert run.exit_code == 0
    home = job.locate_run(job.runs[0])
    for number, gpus in enumerate(("0,1", "2,3")):
        own = f"instance-{number}"
        assert run.files[f"{own}/output.txt"].decode() == (
            f"{number} of 2 on {gpus} at {home}/{own}\n"
        )
        assert run.files[f"{own}/exit_code"] == b"0\n"
        assert f"--- instance {number} ---\n{number} of 2" in run.output_tail


def test_a_home_of_the_environments_own_is_kept(runner, block, program):
    with_home = program(SAYS, variables=(("HOME", "/mine"),))
    job = replace(block(with_home), launch=Launch(instances=2))
    (run,) = finished(runner, job, runner.submit(job)).runs.values()
    assert run.files["instance-1/output.txt"] == b"1 of 2 on none at /mine\n"


def test_the_first_instance_that_fails_ends_the_others_and_is_named(
    runner, block, program, tmp_path
):
    # One that has not begun when another fails has no exit code of its own.
    script = (
        f"cd {shlex.quote(str(tmp_path))}; "
        'if [ "$TARE_INSTANCE" = 1 ]; then '
        "until [ -e began-0 ] && [ -e began-2 ]; do sleep 0.02; done; echo I am out; exit 3; fi; "
        'touch "began-$TARE_INSTANCE"; exec sleep 60'
    )
    job = replace(block(program(script), program("true")), launch=Launch(instances=3))
    record = finished(runner, job, runner.submit(job))
    run, after = record.runs.values()
    assert run.exit_code == 1
    assert run.culprit == "instance 1 ended with exit code 3"
    assert run.output_tail.endswith("--- instance 1, which ended with exit code 3 ---\nI am out")
    assert run.files["instance-0/exit_code"] == b"143\n"
    assert after.exit_code == 0


def test_a_cancelled_packed_run_ends_as_one(runner, block, program):
    script = "trap 'echo told; exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    job = replace(block(program(script)), launch=Launch(instances=2))
    job_id = runner.submit(job)
    outputs = [Path(job.locate_run(job.runs[0]), f"instance-{n}/output.txt") for n in (0, 1)]
    until(lambda: all(path.exists() and "ready" in path.read_text() for path in outputs))
    runner.cancel([job_id])
    record = finished(runner, job, job_id)
    assert record.exit_code == 143
    assert all(path.read_text().endswith("told\n") for path in outputs)
    assert "left behind r0" not in events(record)


def test_a_time_limit_holds_for_instances_and_what_they_leave(runner, block, program):
    script = "setsid sh -c 'trap : TERM; sleep 60; sleep 60' & wait"
    job = replace(block(program(script)), launch=Launch(instances=2))
    limited = tuple(replace(run, time_limit_seconds=1) for run in job.runs)
    record = finished(runner, replace(job, runs=limited), runner.submit(replace(job, runs=limited)))
    (run,) = record.runs.values()
    assert run.failure == "time limit reached: the run was ended after 1 s"
    assert "left behind r0" in events(record)


def test_the_payload_runs_packed_and_is_read_as_one(runner, block):
    environment = EnvironmentSpec(label="here", runtime="bare_metal", python=sys.executable)
    job = replace(block(environment), launch=Launch(instances=2))
    (run,) = finished(runner, job, runner.submit(job)).runs.values()
    assert run.exit_code == 0, run.output_tail
    result = WORKLOADS["blas"].read(run.files, {})
    assert result.facts["instances"] == 2
    assert result.measurements["instance_spread"][0] >= 0
    assert "waiting for the other instances" in result.phases
    assert result.measurements["container_start"][0] > 0
    assert run.snapshot["variables"]["TARE_INSTANCE"] == "0"
    assert run.others["instance 1"]["variables"]["TARE_INSTANCE"] == "1"


RANKS = {
    "runs/0-a/output.txt": b"srun: error: task 1: Exited\nhello of 0\n",
    "runs/0-a/exit_code": b"137\n",
    "runs/0-a/inside.json": b'{"hostname": "n1"}',
    "runs/0-a/rank-0/exit_code": b"143\n",
    "runs/0-a/rank-1/exit_code": b"3\n",
    "runs/0-a/rank-1/output.txt": b"first\nlast words\n",
    "runs/0-a/rank-1/inside.json": b'{"hostname": "n2"}',
    "runs/0-a/rank-2/output.txt": b"killed\n",
}


def test_the_rank_that_failed_by_itself_is_the_culprit():
    run = read_record(RANKS).runs["a"]
    assert run.culprit == "rank 1 ended with exit code 3"
    assert run.output_tail.endswith(
        "--- rank 1, which ended with exit code 3 ---\nfirst\nlast words"
    )
    assert run.output_tail.startswith("srun: error")
    assert (run.snapshot, run.others) == ({"hostname": "n1"}, {"rank 1": {"hostname": "n2"}})


LOST, KILLED, TERMINATED, OWN = 1, 137, 143, 3


@pytest.mark.parametrize(
    ("ends", "culprit"),
    [
        ([(LOST, 100.2), (KILLED, 100.1)], "rank 1"),
        ([(LOST, 100.1), (KILLED, 100.3)], "rank 1"),  # by the clocks of two nodes
        ([(LOST, 100.2), (OWN, 100.1)], "rank 1"),
        ([(OWN, 100.1), (LOST, 100.2)], "rank 0"),
        ([(KILLED, 105.0), (OWN, 100.1)], "rank 1"),  # the launcher ends what does not hear it
        ([(TERMINATED, 99.9), (OWN, 100.1)], "rank 1"),
        ([(TERMINATED, 100.2), (KILLED, 100.1)], "rank 1"),
        ([(None, None), (KILLED, 100.1)], "rank 1"),
        ([(OWN, None), (KILLED, None)], "rank 0"),  # as it was written before
        ([(OWN, None), (LOST, 100.1)], "rank 1"),
        ([(0, 100.0), (OWN, 100.1)], "rank 1"),
    ],
)
def test_the_rank_that_was_lost_is_the_culprit_and_not_those_that_lost_it(
    ends: list[tuple[int | None, float | None]], culprit: str
) -> None:
    files = {"runs/0-a/exit_code": b"1\n"}
    for number, (code, ended) in enumerate(ends):
        own = f"runs/0-a/rank-{number}"
        files[f"{own}/output.txt"] = b""
        files |= {f"{own}/exit_code": b"%d\n" % code} if code is not None else {}
        files |= {f"{own}/ended": b"%f\n" % ended} if ended is not None else {}
    run = read_record(files).runs["a"]
    assert run.culprit.startswith(f"{culprit} ended with exit code ")


@pytest.mark.parametrize("ended", [b"", b"nan", b"-inf", b"\xff\xfe", b"soon", b"1e999"])
def test_a_time_that_is_none_is_as_if_it_were_not_there(ended):
    files = {"runs/0-a/rank-0/exit_code": b"137\n", "runs/0-a/rank-0/ended": ended}
    files |= {"runs/0-a/rank-1/exit_code": b"3\n", "runs/0-a/exit_code": b"3\n"}
    assert read_record(files).runs["a"].culprit == "rank 1 ended with exit code 3"


def test_a_failure_that_a_rank_names_is_the_runs():
    named = {"runs/0-a/rank-2/failure": b"image missing: /x.sif, on n2\n"}
    run = read_record(RANKS | named).runs["a"]
    assert run.failure == "image missing: /x.sif, on n2 (rank 2)"
    of_script = {"runs/0-a/failure": b"time limit reached: the run was ended after 9 s\n"}
    assert read_record(RANKS | named | of_script).runs["a"].failure.startswith("time limit reached")
