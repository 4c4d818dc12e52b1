"""Every runtime of the lab is given one block, and each program finds the same things around it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from lab.client import Lab
from runners.jobs import EnvironmentSpec, JobSpec, Launch
from runners.records import read_record
from runners.runtimes import RUNTIMES, Inside
from runners.schedulers import Slurm
from runners.workloads import WORKLOADS
from tests.lab.machine import Machine, connected

pytestmark = pytest.mark.lab

CONTAINERS = [
    *("Apptainer SIF", "Apptainer sandbox", "udocker P1", "udocker R1", "udocker S1"),
    *("Charliecloud", "Charliecloud squashfs", "Podman"),
]
# udocker's choice: root inside, pretended or by a namespace; outside whoever started it.
ROOT_INSIDE = {"udocker P1", "udocker R1", "udocker S1"}
COMMAND = WORKLOADS["command"]
ODD = 'it\'s $(a) "value" with ünïcödé'
# Looks around instead of measuring, and leaves what it has seen in the run's folder.
PROBE = r"""
import json, os, socket, sys
names = "OMP_NUM_THREADS ODD HOME LANG CUDA_VISIBLE_DEVICES LEAKED PYTHONNOUSERSITE".split()
seen = {
    "variables": {name: os.environ.get(name) for name in names},
    "directory": os.getcwd(),
    "host": socket.gethostname(),
    "data": open(os.environ["DATA"] + "/number").read(),
    "cpus": sorted(os.sched_getaffinity(0)),
    "arguments": sys.argv[1:],
}
if os.path.exists("/in side"):
    seen["data"] = open("/in side/number").read()
json.dump({"user": os.getuid(), "gpus": sorted(n for n in os.listdir("/dev") if n[:6] == "nvidia"),
           "seen": seen}, open("probe.json", "w"))
"""


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> Iterator[Machine]:
    with connected(lab, Slurm(), gate=False) as runner:
        # Names of jobs that no other module gives on the same lab.
        yield Machine(lab, runner, numbers=count(1000))


@pytest.fixture(scope="module")
def environments(cluster: Machine) -> dict[str, EnvironmentSpec]:
    software = cluster.lab.images["numpy"]
    inside = EnvironmentSpec("", "", python=software.image.python)

    def container(label: str, runtime: str, form: str, mode: str = "") -> EnvironmentSpec:
        staged = software.form(form, mode)
        return replace(
            inside,
            label=label,
            runtime=runtime,
            mode=mode,
            image_format=form,
            image_path=staged.path,
        )

    containers = [
        container("Apptainer SIF", "apptainer", "sif"),
        container("Apptainer sandbox", "apptainer", "sandbox"),
        container("udocker P1", "udocker", "udocker", "P1"),
        container("udocker R1", "udocker", "udocker", "R1"),
        container("udocker S1", "udocker", "udocker", "S1"),
        container("Charliecloud", "charliecloud", "sandbox"),
        container("Charliecloud squashfs", "charliecloud", "squashfs"),
        container("Podman", "podman", "podman"),
    ]
    assert [one.label for one in containers] == CONTAINERS
    bare = replace(
        inside, label="bare metal", runtime="bare_metal", python=software.bare_metal.python
    )
    return {one.label: one for one in (bare, *containers)}


def start(environment: EnvironmentSpec, program: str, data: str) -> EnvironmentSpec:
    """The environment with another program: its `python` becomes a script among its binds."""
    bare = environment.runtime == "bare_metal"
    return replace(
        environment,
        python=program,
        binds=(data,) if bare else (data, f"{data}:/in side"),
        variables=(
            ("PYTHON", environment.python),
            ("DATA", data),
            ("OMP_NUM_THREADS", "3"),
            ("ODD", ODD),
        ),
        setup_lines=("export LEAKED=leaked",) if not bare else (),
    )


def run_block(cluster: Machine, script: str, *environments: EnvironmentSpec) -> Any:
    """One job with a run of `script` in each environment: its files and its record."""
    data = f"{cluster.lab.work_directory}/it's data {next(cluster.numbers)}"
    transport = cluster.runner.transport
    transport.run(["mkdir", "-p", data])
    transport.write(f"{data}/number", b"42")
    transport.write(f"{data}/probe.py", PROBE.encode())
    transport.write(f"{data}/program", f"#!/bin/sh\n{script}\n".encode())
    transport.run(["chmod", "+x", f"{data}/program"])
    job = cluster.job(
        *(start(one, f"{data}/program", data) for one in environments), gpus_per_node=2
    )
    job = replace(job, runs=tuple(replace(run, time_limit_seconds=20) for run in job.runs))
    job_id = cluster.runner.submit(job)
    cluster.until(lambda: not cluster.runner.poll([job_id]), 170)
    return job, cluster.runner.collect(job.directory)


@pytest.fixture(scope="module")
def block(
    cluster: Machine, environments: dict[str, EnvironmentSpec]
) -> tuple[JobSpec, dict[str, dict[str, Any]]]:
    """One job of all environments, and what the program saw in each, by label."""
    script = 'exec "$PYTHON" "$DATA/probe.py" "$@"'
    job, files = run_block(cluster, script, *environments.values())
    probes = {}
    for run in job.runs:
        name = f"runs/{run.directory_name}/probe.json"
        assert name in files, read_record(files).runs[run.uid]
        probes[run.environment.label] = json.loads(files[name])
        # The program's own folder differs from run to run; where in it things are must not.
        text = json.dumps(probes[run.environment.label]["seen"])
        seen = json.loads(text.replace(job.locate_run(run).replace('"', '\\"'), "RUN"))
        probes[run.environment.label]["seen"] = seen
    return job, probes


@pytest.mark.parametrize("label", CONTAINERS)
def test_the_program_sees_what_it_sees_on_bare_metal(block, label):
    """Variables, binds, working directory, host name, CPUs and arguments; nothing leaks in."""
    _, probes = block
    seen = probes["bare metal"]["seen"]
    assert probes[label]["seen"] == seen
    assert seen["variables"] == {
        "OMP_NUM_THREADS": "3",
        "ODD": ODD,
        "HOME": "RUN",
        "LANG": "C.UTF-8",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "LEAKED": None,
        "PYTHONNOUSERSITE": "1",
    }
    assert (seen["directory"], seen["data"]) == ("RUN", "42")


def test_the_user_is_the_same(cluster, block):
    """By number inside, and always as the owner of what was written."""
    job, probes = block
    own = int(cluster.lab.execute(["id", "-u", cluster.lab.user]).stdout)
    for run in job.runs:
        label = run.environment.label
        assert probes[label]["user"] == (0 if label in ROOT_INSIDE else own), label
        written = f"{job.locate_run(run)}/probe.json"
        owner = cluster.lab.execute(["stat", "-c", "%u", written]).stdout
        assert int(owner) == own, label


def test_podman_is_given_the_gpus_of_the_cdi(block):
    _, probes = block
    assert probes["Podman"]["gpus"] == ["nvidia0", "nvidia1", "nvidia2", "nvidia3"]


def test_a_program_that_takes_too_long_ends_in_every_runtime(cluster, environments):
    """And so does what it has started: nothing is left on the node for the next run to share."""
    mark = "73519"
    script = f'sleep {mark} & exec "$PYTHON" -c "import time; time.sleep({mark})"'
    chosen = [one for one in environments.values() if one.label != "Charliecloud squashfs"]
    data = f"{cluster.lab.work_directory}/slow {next(cluster.numbers)}"
    transport = cluster.runner.transport
    transport.run(["mkdir", "-p", data])
    transport.write(f"{data}/program", f"#!/bin/sh\n{script}\n".encode())
    transport.run(["chmod", "+x", f"{data}/program"])
    job = cluster.job(*(start(one, f"{data}/program", data) for one in chosen))
    job = replace(job, runs=tuple(replace(run, time_limit_seconds=2) for run in job.runs))
    job_id = cluster.runner.submit(job)
    cluster.until(lambda: not cluster.runner.poll([job_id]), 170)
    record = read_record(cluster.runner.collect(job.directory))
    failures = {run.environment.label: record.runs[run.uid].failure for run in job.runs}
    assert failures == {
        one.label: "time limit reached: the run was ended after 2 s" for one in chosen
    }
    assert cluster.lab.execute(["pgrep", "-af", mark]).stdout == ""


def test_a_program_that_is_killed_is_known_to_be_in_every_runtime(cluster, environments):
    """Also after a child of its ended well, whose exit code PRoot would return."""
    script = "/bin/true & wait; echo killed now; kill -KILL $$"
    job, files = run_block(cluster, script, *environments.values())
    record = read_record(files)
    for run in job.runs:
        ran = record.runs[run.uid]
        assert (ran.exit_code, ran.failure) == (137, ""), run.environment.label
        # Podman may warn of the machine's control groups, too.
        assert "killed now" in ran.output_tail.splitlines(), run.environment.label


def test_one_container_of_udocker_starts_on_many_nodes_at_once(cluster, environments):
    """In R1 each start writes a configuration of its own, which no other may take."""
    wall = RUNTIMES["udocker"]().wrap(Inside(environments["udocker R1"], "/"))
    script = 'for _ in 1 2 3 4 5 6; do "$@" /bin/echo well & done; wait'
    find = ["find", "/tmp", "-maxdepth", "1", "-name", "tare-udocker-*"]
    # Of a run that another test killed: nothing can remove what KILL leaves.
    before = cluster.lab.execute(find).stdout.split()
    done = cluster.runner.transport.run(["sh", "-c", script, "many", *wall], timeout=60)
    assert done.stdout.split() == [b"well"] * 6, done
    assert {*cluster.lab.execute(find).stdout.split()} <= {*before}


@pytest.mark.parametrize(
    ("change", "failure"),
    [
        ({"executable": "/opt/it's gone"}, "runtime missing: {node} has no /opt/it's gone"),
        ({"image_path": "/no/such image"}, "image missing: /no/such image"),
    ],
)
def test_what_is_not_on_the_node_is_named(cluster, environments, change, failure):
    chosen = [environments[label] for label in CONTAINERS if "squashfs" not in label]
    job = cluster.job(*(replace(one, **change) for one in chosen))
    record = cluster.finished(job, cluster.runner.submit(job))
    node = record.journal[0]["node"]
    for run in job.runs:
        assert record.runs[run.uid].failure == failure.format(node=node), run.environment.label


def test_a_program_is_described_alike_behind_every_wall(cluster, environments):
    """Its files and the libraries that the loader of each environment would load."""
    asked = COMMAND.clean({"argv": ["timeout", "20", "sort", "--version"], "read": "nothing"})
    job = cluster.job(*environments.values(), gpus_per_node=1)
    runs = tuple(replace(run, workload="command", parameters=asked) for run in job.runs)
    job = replace(job, runs=runs)
    record = cluster.finished(job, cluster.runner.submit(job), 170)
    found = {}
    for run in job.runs:
        ran = record.runs[run.uid]
        assert (ran.exit_code, ran.failure) == (0, ""), ran.output_tail
        program = ran.snapshot["program"]
        files = {file["word"]: file["sha256"] for file in program["files"]}
        libraries = {name: file["sha256"] for name, file in program["libraries"].items()}
        found[run.environment.label] = files, libraries
    files, libraries = found["bare metal"]
    assert list(files) == ["timeout", "sort"]
    assert "libc.so.6" in libraries
    assert found == dict.fromkeys(found, (files, libraries))


def test_a_program_recorded_outside_ends_in_every_runtime_when_its_time_is_up(
    cluster, environments
):
    mark = "73521"
    chosen = [replace(row, python="none") for row in environments.values()]
    parameters = COMMAND.clean(
        {"argv": ["sh", "-c", f"sleep {mark}; true"], "read": "nothing", "recorded": "outside"}
    )
    job = cluster.job(*chosen)
    runs = (
        replace(run, workload="command", parameters=parameters, time_limit_seconds=4)
        for run in job.runs
    )
    job = replace(job, runs=tuple(runs))
    record = cluster.finished(job, cluster.runner.submit(job), 170)
    for run in job.runs:
        ran = record.runs[run.uid]
        assert ran.failure == "time limit reached: the run was ended after 4 s", run.environment
        assert "python" not in ran.snapshot
        assert ran.snapshot["os"].startswith("Debian"), run.environment.label
    assert cluster.lab.execute(["pgrep", "-af", mark]).stdout == ""


def test_processes_of_two_nodes_are_recorded_outside(cluster, environments):
    chosen = [replace(environments[name], python="none") for name in ("bare metal", "Podman")]
    script = "echo rank $TARE_RANK of $TARE_SIZE; sleep 0.3"
    parameters = COMMAND.clean(
        {
            "argv": ["sh", "-c", script],
            "read": "nothing",
            "recorded": "outside",
            "processes": "node",
        }
    )
    job = cluster.job(*chosen, nodes=2)
    runs = tuple(replace(run, workload="command", parameters=parameters) for run in job.runs)
    job = replace(job, runs=runs, launch=Launch("srun", nodes=2, processes_per_node=1))
    record = cluster.finished(job, cluster.runner.submit(job), 170)
    for run in job.runs:
        ran = record.runs[run.uid]
        assert (ran.exit_code, ran.failure) == (0, ""), ran.output_tail
        assert "rank 0 of 2" in ran.output_tail
        assert b"rank 1 of 2" in ran.files["rank-1/output.txt"]
        assert COMMAND.read(ran.files, parameters).measurements["wall_time"][0] > 0.25
