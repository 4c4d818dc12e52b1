"""Which scales a cluster and its workloads can run: each refusal says what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from experiments.planning.forecasts import forecast
from experiments.planning.rules import list_refusals
from experiments.planning.scale_rules import suggest_scale
from runners.workloads import WORKLOADS
from runners.workloads.blas import Blas
from tests.factories import (
    ClusterFactory,
    ContainerFactory,
    EnvironmentFactory,
    PartitionFactory,
    RuntimeFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db


class Several(Blas):
    """Runs on as many nodes and GPUs as there are, as the parameter "seed" says."""

    most_nodes = 4
    most_gpus = 8

    @classmethod
    def choose_processes(cls, parameters: Mapping[str, Any]) -> Any:
        return ("one", "node", "gpu")[parameters["seed"]]

    @classmethod
    def list_refusals(
        cls, parameters: Mapping[str, Any], *, nodes: int, gpus: int, processes: int
    ) -> list[str]:
        odd = f"{nodes} nodes, {gpus} GPUs, {processes} processes: take an even number."
        return [odd] if processes % 2 and processes > 1 else []


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setitem(WORKLOADS, "blas", Several)
    cluster = ClusterFactory(name="mill", scheduler="slurm")
    baseline = EnvironmentFactory(cluster=cluster)
    return {
        "cluster": cluster,
        "partition": PartitionFactory(cluster=cluster, name="gpu", gpus_per_node=4, nodes=3),
        "environments": [baseline, ContainerFactory(cluster=cluster)],
        "baseline": baseline,
        "repeats": 5,
        "paired": True,
    }


def refused(asked: dict[str, Any], scale: str, each: str) -> list[str]:
    seed = ("one", "node", "gpu").index(each)
    row = WorkloadFactory.build(name="W", kind="blas", parameters={"seed": seed})
    return list_refusals(**asked, workloads=[row], scales=[scale]).get("scales", [])


@pytest.mark.parametrize(
    ("scale", "each"),
    [
        ("1x4", "one"),
        ("1x4", "node"),
        ("1x1", "gpu"),
        ("1x0", "gpu"),
        ("1x1 srun", "one"),
        ("1x4 mpirun", "gpu"),
        ("2x4 srun", "node"),
        ("2x1 mpirun", "gpu"),
        ("2x0 srun", "node"),
        ("1x4x4", "gpu"),
        ("1x4x2", "one"),
        ("1x0x3", "one"),
    ],
)
def test_what_can_be_started_is_not_refused(asked: dict[str, Any], scale: str, each: str) -> None:
    assert refused(asked, scale, each) == []


@pytest.mark.parametrize(
    ("scale", "each", "words"),
    [
        ("2x4", "node", "nothing would start the program on 2 nodes. Write 2x4 srun or 2x4 mpirun"),
        ("2x4 srun", "one", "which has no use for 2 nodes. Write 1x4, or let it run as"),
        ("1x4", "gpu", "one process for each GPU. A launcher has to start them: write 1x4 mpirun"),
        ("1x4x2", "gpu", "An instance is one process, and has one GPU: write 1x4x4"),
        ("1x4x3", "one", "4 GPUs cannot be shared out evenly among 3 instances"),
        ("2x4x4", "one", "instances are packed on one node. Write 1x4x4"),
        ("1x4x4 srun", "one", "starts packed instances itself. Leave srun out"),
        ("4x1 srun", "node", "4 nodes asked for; gpu has 3."),
        ("3x1 srun", "gpu", "3 nodes, 1 GPUs, 3 processes: take an even number."),
        ("1x2 ssh", "one", "is no scale: write nodes x GPUs per node, such as 1x2, or 2x4 srun"),
    ],
)
def test_each_refusal_says_what_to_write(
    asked: dict[str, Any], scale: str, each: str, words: str
) -> None:
    assert words in " ".join(refused(asked, scale, each))


@pytest.mark.parametrize(
    ("scheduler", "scale", "words"),
    [
        ("direct", "1x2 srun", "srun is Slurm's, and the scheduler of mill is none"),
        ("grid_engine", "1x2 srun", "Write 1x2 mpirun."),
        ("grid_engine", "2x2 mpirun", "Tare starts processes on several under Slurm only"),
        ("grid_engine", "1x2 mpirun", ""),
    ],
)
def test_launchers_are_those_of_the_scheduler(
    asked: dict[str, Any], scheduler: str, scale: str, words: str
) -> None:
    asked["cluster"].scheduler = scheduler
    found = " ".join(refused(asked, scale, "gpu"))
    assert words in found
    assert bool(found) == bool(words)


def test_a_runtime_that_is_a_step_itself_has_no_launcher(asked: dict[str, Any]) -> None:
    asked["environments"][1].runtime = RuntimeFactory.build(kind="pyxis")
    assert refused(asked, "1x2", "one") == []
    assert refused(asked, "1x2 srun", "gpu") == [
        f"1x2 srun: {asked['environments'][1]} is started by Pyxis, which cannot be put under a "
        "launcher. Leave it out, or use another runtime for the image, such as Enroot."
    ]


def test_most_workloads_use_one_node_and_a_gpu(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Several, "most_nodes", 1)
    monkeypatch.setattr(Several, "most_gpus", 1)
    assert refused(asked, "1x4x4", "one") == []
    assert refused(asked, "1x2", "one") == ["W uses one node and at most 1 GPU, not 1x2."]


def test_a_warm_up_is_not_looked_for_in_several_instances(asked: dict[str, Any]) -> None:
    row = WorkloadFactory.build(parameters={"steps": 4000, "seed": 0})
    found = list_refusals(**asked, workloads=[row], scales=["1x4x4", "1x4"], find_warm_up=True)
    assert found == {
        "warm_up": [
            "1x4x4 packs 4 instances into a run, and each settles at a step of its own: choose "
            "the fixed number of steps."
        ]
    }


def test_instances_and_launchers_take_no_more_gpus_than_the_scale_says(
    asked: dict[str, Any],
) -> None:
    row = WorkloadFactory(time_limit_seconds=3600)
    known = {"workloads": [row], "environments": asked["environments"], "repeats": 1}
    seen = forecast(**known, scales=["2x4 srun", "1x4x4"], paired=True)
    assert seen.gpu_hours_at_most == 2 * (8 + 4)


@pytest.mark.parametrize(
    ("scale", "each", "refusal"),
    [
        ("3x1 srun", "node", "3 nodes, 1 GPUs, 3 processes: take an even number."),
        ("5x1 srun", "node", "W uses at most 4 nodes and at most 8 GPUs on each, not 5x1 srun."),
        ("1x9 srun", "node", "W uses at most 4 nodes and at most 8 GPUs on each, not 1x9 srun."),
    ],
)
def test_a_workload_takes_as_many_nodes_and_gpus_as_it_says(
    asked: dict[str, Any], scale: str, each: str, refusal: str
) -> None:
    asked["partition"].nodes, asked["partition"].gpus_per_node = 9, 9
    seen = refused(asked, scale, each)
    assert len(seen) == 1
    assert seen[0].endswith(refusal)
    assert refused(asked, "4x8 srun", each) == []


def test_without_a_partition_there_is_one_node_and_no_gpu(asked: dict[str, Any]) -> None:
    asked["partition"] = None
    asked["cluster"].scheduler = "direct"
    assert refused(asked, "1x0", "one") == []
    machine = "this machine, without a partition that says what it has, has"
    assert refused(asked, "1x1", "one") == [f"1 GPU a node asked for; {machine} 0."]
    assert refused(asked, "2x0", "one")[0] == f"2 nodes asked for; {machine} 1."


def test_parameters_that_the_kind_refuses_refuse_the_scale(asked: dict[str, Any]) -> None:
    row = WorkloadFactory.build(name="W", kind="blas", parameters={"steps": "many"})
    seen = list_refusals(**asked, workloads=[row], scales=["1x1"])
    assert seen == {"scales": ["W: steps: must be a whole number; got 'many'."]}


def test_one_process_on_each_of_several_nodes_is_no_single_process(asked: dict[str, Any]) -> None:
    assert refused(asked, "2x1 srun", "one") == [
        "2x1 srun: W runs as one process, which has no use for 2 nodes. Write 1x1, or let it run "
        "as one process for each node or GPU."
    ]


def test_the_smallest_scale_has_a_gpu_where_the_partition_has_one() -> None:
    assert suggest_scale(None) == "1x0"
    assert suggest_scale(PartitionFactory.build(gpus_per_node=0)) == "1x0"
    assert suggest_scale(PartitionFactory.build(gpus_per_node=1)) == "1x1"


def test_packed_instances_do_not_go_over_several_jobs(asked: dict[str, Any]) -> None:
    parameters = {"data": "made", "epochs": 2, "segments": 3}
    row = WorkloadFactory.build(name="W", kind="cnn", parameters=parameters)
    packed = list_refusals(**asked, workloads=[row], scales=["1x4x4"])["scales"]
    assert packed == [
        "1x4x4: W may go over several jobs, and packed instances cannot: choose segments=1, or "
        "leave this scale out."
    ]
    assert "scales" not in list_refusals(**asked, workloads=[row], scales=["1x1"])
