"""Several processes of one run on a real cluster: srun and mpirun over two nodes, and instances."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from lab.client import Lab
from runners.jobs import EnvironmentSpec, JobSpec, Launch
from runners.records import RunRecord
from runners.schedulers import Slurm
from tests.lab.machine import BLAS, PARAMETERS, Machine, connected

pytestmark = pytest.mark.lab
VARIABLES = ("TARE_RANK", "TARE_SIZE", "TARE_LOCAL_RANK", "TARE_LOCAL_SIZE")


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> Iterator[Machine]:
    with connected(lab, Slurm()) as runner:
        yield Machine(lab, runner)


def launched(
    cluster: Machine, launch: Launch, *environments: EnvironmentSpec, gpus: int = 1
) -> JobSpec:
    job = cluster.job(*environments, nodes=launch.nodes, gpus_per_node=gpus, cpus_per_node=2)
    return replace(job, launch=launch)


def ran(cluster: Machine, job: JobSpec) -> list[RunRecord]:
    record = cluster.finished(job, cluster.runner.submit(job))
    assert record.bad_checksums == []
    return list(record.runs.values())


def inside(run: RunRecord, place: str) -> dict[str, Any]:
    return dict(json.loads(run.files[f"{place}inside.json"])["variables"])


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_each_process_knows_its_place_behind_every_wall(cluster, launcher):
    launch = Launch(launcher, nodes=2, processes_per_node=2)
    bare, sif, _, udocker, _ = cluster.environments()
    for run in ran(cluster, launched(cluster, launch, bare, sif, udocker, gpus=2)):
        assert (run.exit_code, run.failure) == (0, ""), run.output_tail
        places = [inside(run, f"rank-{rank}/" if rank else "") for rank in range(4)]
        told = [tuple(place[name] for name in VARIABLES) for place in places]
        assert told == [(str(rank), "4", str(rank % 2), "2") for rank in range(4)]
        nodes = [place["SLURMD_NODENAME"] for place in places]
        assert nodes == ["node1", "node1", "node2", "node2"]
        assert {place["CUDA_VISIBLE_DEVICES"] for place in places} == {"0,1"}
        assert "step_time" in BLAS.read(run.files, PARAMETERS).measurements
