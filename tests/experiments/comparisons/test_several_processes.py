"""Experiments whose runs are several processes or packed instances, from launch to numbers."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from django.test import Client

from experiments.comparisons import compare_experiment
from experiments.comparisons.scales import compute_scalings
from experiments.execution import lifecycle
from experiments.execution.specs import make_job_spec
from experiments.models import Cluster, Environment, Experiment, Job
from runners.jobs import Launch
from runners.workloads import WORKLOADS
from tests.conftest import finish
from tests.factories import (
    EnvironmentFactory,
    ExperimentFactory,
    JobFactory,
    LaunchedFactory,
    PartitionFactory,
    RunFactory,
    WorkloadFactory,
    block,
)

pytestmark = pytest.mark.django_db


def launched(here: Cluster, bare: Environment, kind: str, parameters: dict[str, Any]) -> Experiment:
    cleaned = WORKLOADS[kind].clean(parameters)
    other = EnvironmentFactory(name="other", cluster=here, python=sys.executable)
    made: Experiment = ExperimentFactory(
        cluster=here,
        partition=None,
        baseline=bare,
        environments=[bare, other],
        workloads=[WorkloadFactory(kind=kind, parameters=cleaned)],
        scales=["1x0x2"],
        repeats=1,
    )
    lifecycle.launch(made, made.owner)
    return made


def test_a_packed_run_is_one_run_with_the_means_of_its_instances(
    here: Cluster, bare: Environment, client: Client
) -> None:
    made = launched(here, bare, "blas", {"steps": 6, "burn_in": 2, "matrix_size": 32})
    finish(made)
    for run in made.runs.all():
        assert run.state == "succeeded", run.message
        assert run.scale == "1x0x2"
        assert run.measurements.get(metric="instance_spread").unit == "1"
        assert len(run.series.get(metric="step_time").values) == 6
        assert len(run.series.get(metric="step_time of instance 1").values) == 6
        assert "waiting for the other instances" in run.phases
        assert run.snapshot
        others = run.snapshot.content["others"]
        assert others["instance 1"]["variables.TARE_INSTANCE"] == "1"
        client.force_login(made.owner)
        page = client.get(run.get_absolute_url()).content.decode()
        assert "instance_spread" in page
        assert "instance 1.variables.TARE_INSTANCE" in page
    (group,) = compare_experiment(made).groups
    assert len(group.samples) == 2
    assert group.configuration["scale"] == "1x0x2"


def test_the_instance_that_failed_is_named_with_its_last_words(
    here: Cluster, bare: Environment
) -> None:
    fails = "test $TARE_INSTANCE = 0 || { echo I am out; exit 3; }; exec sleep 60"
    made = launched(here, bare, "command", {"argv": ["sh", "-c", fails], "read": "nothing"})
    finish(made)
    for run in made.runs.all():
        assert (run.state, run.reason) == ("failed", "crashed")
        assert run.message.startswith("Instance 1 ended with exit code ")
        assert "I am out" in run.output_tail


def test_the_plan_says_what_starts_the_processes_and_the_partition_how() -> None:
    made = LaunchedFactory(workloads=[WorkloadFactory(kind="cnn", parameters={})])
    made.partition = PartitionFactory(
        cluster=made.cluster, srun_options=["--mpi=pmix"], mpirun_options=["--mca btl ^openib"]
    )
    made.save()

    def launch(scale: str, **parameters: Any) -> Launch:
        job: Job = JobFactory(experiment=made, scale=scale)
        limits = {"kind": "cnn", "parameters": parameters, "time_limit_seconds": 60}
        environment = {
            "label": "x",
            "runtime": "bare_metal",
            **{name: [] for name in ("options", "binds", "setup_lines", "variables")},
        }
        RunFactory(job=job, spec={"workload": limits, "environment": environment})
        return make_job_spec(job).launch

    assert launch("1x4") == Launch()
    assert launch("1x4x4") == Launch(instances=4)
    assert launch("2x4 srun") == Launch("srun", nodes=2, options=("--mpi=pmix",))
    assert launch("2x4 mpirun", parallel="horovod") == Launch(
        "mpirun", nodes=2, processes_per_node=4, options=("--mca btl ^openib",)
    )


def test_the_same_gpus_under_another_launcher_are_another_line() -> None:
    scales = ["1x2", "1x4", "1x2 srun", "2x2 srun", "1x4x4"]
    row = WorkloadFactory(name="net", kind="cnn", parameters={})
    made = LaunchedFactory(workloads=[row], scales=scales, repeats=3)
    environments = list(made.environments.all())
    for repeat in range(1, 4):
        for scale in scales:
            values = dict.fromkeys(environments, 1 + repeat / 100)
            block(made, repeat, values, scale=scale)
    found = {one.name: one for one in compute_scalings(compare_experiment(made))}
    assert set(found) == {"net", "net, srun"}
    assert {level.gpus for level in found["net, srun"].levels} == {2, 4}
