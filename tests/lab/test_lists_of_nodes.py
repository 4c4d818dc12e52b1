"""Lists of nodes on the real Slurm: which name of one is unknown, and all nodes that a job had."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from experiments.execution.journals import read_nodes
from lab.client import Lab
from runners.errors import NotNow
from runners.jobs import JobSpec, Launch
from runners.schedulers import Slurm
from runners.unknown_nodes import UNKNOWN_NODE
from tests.lab.machine import Machine, connected

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> Iterator[Machine]:
    with connected(lab, Slurm()) as runner:
        yield Machine(lab, runner)


def avoid(job: JobSpec, *names: str) -> JobSpec:
    return replace(job, resources=replace(job.resources, avoided_nodes=",".join(names)))


def test_slurm_refuses_a_list_with_an_unknown_name_and_trials_find_it(cluster: Machine) -> None:
    job = cluster.job(cluster.program("hostname"))
    with pytest.raises(NotNow) as refusal:
        cluster.runner.submit(avoid(job, "node1", "gone7"))
    assert UNKNOWN_NODE.search(f"{refusal.value} {refusal.value.details}"), "as Slurm words it"
    trial = Slurm().build_trial_command(avoid(job, "node1", "gone7"))
    assert trial is not None
    assert any("--test-only" in part for part in trial)
    find = cluster.runner.find_unknown_nodes
    assert find(avoid(job, "node1", "gone7")) == ["gone7"]
    assert find(avoid(job, "gone8", "node1", "gone7")) == ["gone8", "gone7"]
    assert find(avoid(job, "node1")) == []
    assert cluster.runner.find(job) is None, "a trial submits nothing"
    rest = avoid(job, "node1")
    record = cluster.finished(rest, cluster.runner.submit(rest))
    assert {line["node"] for line in record.journal} == {"node2"}


def test_the_journal_of_a_job_on_two_nodes_names_both(cluster: Machine) -> None:
    job = cluster.job(cluster.program("exit 3"), nodes=2, cpus_per_node=1)
    several = replace(job, launch=Launch("srun", nodes=2))
    record = cluster.finished(several, cluster.runner.submit(several))
    assert read_nodes(record) == ["node1", "node2"]
    assert record.damage == ()
    alone = cluster.job(cluster.program("exit 3"))
    assert read_nodes(cluster.finished(alone, cluster.runner.submit(alone))) == []
