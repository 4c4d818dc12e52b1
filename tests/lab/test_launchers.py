"""Several processes of one run on a real cluster: srun and mpirun over two nodes, and instances."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from lab.client import Lab
from runners.jobs import EnvironmentSpec, JobSpec, Launch
from runners.records import RunRecord
from runners.schedulers import Slurm
from runners.workloads import WORKLOADS
from tests.lab.machine import BLAS, PARAMETERS, Machine, connected

pytestmark = pytest.mark.lab
PLACE = ("TARE_RANK", "TARE_SIZE", "TARE_LOCAL_RANK", "TARE_LOCAL_SIZE")


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> Iterator[Machine]:
    with connected(lab, Slurm()) as runner:
        yield Machine(lab, runner)


def job_of(
    cluster: Machine, launch: Launch, *environments: EnvironmentSpec, gpus: int = 2
) -> JobSpec:
    job = cluster.job(*environments, nodes=launch.nodes, gpus_per_node=gpus, cpus_per_node=2)
    return replace(job, launch=launch)


def ran(cluster: Machine, job: JobSpec, seconds: float = 240) -> list[RunRecord]:
    record = cluster.finished(job, cluster.runner.submit(job), seconds)
    assert (record.exit_code, record.bad_checksums) == (0, [])
    return list(record.runs.values())


def inside(run: RunRecord, place: str) -> dict[str, str]:
    return dict(json.loads(run.files[f"{place}inside.json"])["variables"])


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_each_process_knows_its_place_behind_every_wall(cluster, launcher):
    launch = Launch(launcher, nodes=2, processes_per_node=2)
    bare, sif, _, udocker, _ = cluster.environments()
    walls = (bare, sif, udocker) if launcher == "srun" else (bare, udocker)
    for run in ran(cluster, job_of(cluster, launch, *walls)):
        assert (run.exit_code, run.failure) == (0, ""), run.output_tail
        places = [inside(run, f"rank-{rank}/" if rank else "") for rank in range(4)]
        told = [tuple(place[name] for name in PLACE) for place in places]
        assert told == [(str(rank), "4", str(rank % 2), "2") for rank in range(4)]
        nodes = [place["SLURMD_NODENAME"] for place in places]
        assert nodes == ["node1", "node1", "node2", "node2"]
        assert {place["CUDA_VISIBLE_DEVICES"] for place in places} == {"0,1"}
        assert "step_time" in BLAS.read(run.files, PARAMETERS).measurements


def test_packed_instances_see_a_gpu_each_behind_every_wall(cluster):
    bare, _, sandbox, udocker, _ = cluster.environments()
    job = job_of(cluster, Launch(instances=4), bare, sandbox, udocker, gpus=4)
    for run in ran(cluster, job):
        assert run.exit_code == 0, run.output_tail
        seen = [inside(run, f"instance-{n}/")["CUDA_VISIBLE_DEVICES"] for n in range(4)]
        assert seen == ["0", "1", "2", "3"]
        result = BLAS.read(run.files, PARAMETERS)
        assert result.facts["instances"] == 4
        assert result.measurements["instance_spread"][0] > 0


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_a_rank_that_dies_ends_the_others_and_is_named(cluster, launcher):
    script = 'if [ "$TARE_RANK" = 1 ]; then echo I am out; exit 3; fi; exec sleep 100'
    missing = EnvironmentSpec("", "bare_metal", python="/none/python")
    job = job_of(cluster, Launch(launcher, nodes=2), cluster.program(script), missing)
    died, absent = ran(cluster, job)
    assert died.exit_code not in (0, None)
    assert died.culprit == "rank 1 ended with exit code 3"
    assert died.output_tail.endswith("I am out")
    assert absent.culprit.endswith("ended with exit code 127 (the program was not found)")
    assert "No such file or directory" in absent.output_tail


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_a_time_limit_reaches_every_process(cluster, launcher):
    script = "trap 'echo told; exit 9' TERM; setsid sleep 300 & while :; do sleep 0.1; done"
    job = job_of(cluster, Launch(launcher, nodes=2), cluster.program(script))
    # mpirun on a busy machine takes seconds before the program has begun and can be told anything.
    limited = tuple(replace(run, time_limit_seconds=10) for run in job.runs)
    record = cluster.finished(job, cluster.runner.submit(replace(job, runs=limited)))
    (run,) = record.runs.values()
    assert run.failure == "time limit reached: the run was ended after 10 s"
    assert b"told" in run.files["rank-0/output.txt"]
    assert b"told" in run.files["rank-1/output.txt"]
    # What Slurm has started, Slurm ends; mpirun leaves what has a session of its own to the sweep.
    swept = "left behind" in [line["event"] for line in record.journal]
    assert swept == (launcher == "mpirun")


def test_tensorflow_trains_as_one_on_two_nodes(cluster):
    """MultiWorkerMirroredStrategy in containers: two processes that find each other by files."""
    cnn, software = WORKLOADS["cnn"], cluster.lab.images["tensorflow"]
    path = software.form("sandbox").path
    box = EnvironmentSpec("box", "apptainer", python=software.image.python, image_path=path)
    job = job_of(cluster, Launch("srun", nodes=2), box, gpus=0)
    asked = cnn.clean({"network": "small", "steps": 10, "burn_in": 3, "batch_size": 16})
    runs = (replace(job.runs[0], workload="cnn", parameters=asked),)
    wanted = replace(job.resources, time_limit_seconds=300, memory_mb=4000)
    (run,) = ran(cluster, replace(job, runs=runs, resources=wanted))
    assert run.exit_code == 0, run.output_tail
    result = cnn.read(run.files, asked)
    assert (result.facts["processes"], result.facts["replicas"]) == (2, 2)
    other = json.loads(run.files["rank-1/result.json"])
    assert other["series"]["loss"]["values"] == result.series["loss"][1]
