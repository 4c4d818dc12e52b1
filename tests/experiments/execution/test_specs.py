"""What the runners are told about a job, value by value, from its frozen plan."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.execution.specs import (
    explain_partition_problem,
    make_job_spec,
    name_job_directory,
    read_sent_files,
    split_lines,
)
from experiments.models import Job, SentFile
from experiments.planning.freeze import freeze_environment
from runners.jobs import EnvironmentSpec, Launch, Resources
from tests.factories import JobFactory, PartitionFactory, RunFactory

pytestmark = pytest.mark.django_db


def planned(scale: str = "1x2", **parameters: Any) -> Job:
    """Return a job of two runs; their positions are not the order of their rows."""
    job: Job = JobFactory(
        scale=scale,
        state=Job.State.PLANNED,
        directory="",
        experiment__cooldown_seconds=7,
        experiment__cluster__work_directory="/scratch/tare/",
        experiment__cluster__setup_lines="module load a\n\nmodule load b\n",
        experiment__partition__name="gpu",
        experiment__partition__cpus_per_run=8,
        experiment__partition__memory_mb=900,
        experiment__partition__account="acc",
        experiment__partition__qos="short",
        experiment__partition__gres="gpu:h100",
        experiment__partition__directives=["--exclusive"],
        experiment__partition__gpus_per_node=4,
        experiment__partition__side_by_side=True,
        experiment__partition__srun_options=["--mpi=pmix"],
    )
    job.workload.time_limit_seconds = 61
    job.workload.save()
    for position, environment in ((1, job.experiment.baseline), (0, None)):
        row = (
            environment or job.experiment.environments.exclude(pk=job.experiment.baseline_id).get()
        )
        RunFactory(
            job=job,
            environment=row,
            position=position,
            spec={
                "workload": {
                    "name": "W",
                    "kind": "blas",
                    "parameters": {"steps": 5, **parameters},
                    "time_limit_seconds": 61,
                },
                "environment": freeze_environment(row),
            },
        )
    return job


def test_a_job_is_told_with_its_runs_in_their_order() -> None:
    job = planned()
    spec = make_job_spec(job)
    assert (spec.uid, spec.name) == (job.uid, job.name)
    assert spec.directory == f"/scratch/tare/jobs/{job.uid}-1" == name_job_directory(job)
    assert (spec.setup_lines, spec.cooldown_seconds) == (("module load a", "module load b"), 7)
    first, second = spec.runs
    assert [first.uid, second.uid] == [job.runs.get(position=position).uid for position in (0, 1)]
    assert (first.position, second.position) == (0, 1)
    assert (first.workload, first.parameters) == ("blas", {"steps": 5})
    assert first.time_limit_seconds == 61
    assert isinstance(first.environment, EnvironmentSpec)
    assert (first.environment.runtime, second.environment.runtime) == ("apptainer", "bare_metal")
    job.directory = "/kept/jobs/1"
    assert make_job_spec(job).directory == "/kept/jobs/1"


def test_a_job_asks_for_what_its_scale_and_partition_say() -> None:
    asked = make_job_spec(planned()).resources
    assert asked == Resources(
        time_limit_seconds=240,  # two runs of 61 s, a pause of 7 s, 60 s beside them: whole minutes
        nodes=1,
        gpus_per_node=2,
        cpus_per_node=8,
        memory_mb=900,
        partition="gpu",
        account="acc",
        qos="short",
        directives=("--exclusive",),
        gres="gpu:h100",
        gpus_on_node=4,
        side_by_side=True,
    )
    job = planned()
    job.experiment.partition, job.node = None, "n1"
    assert make_job_spec(job).resources == Resources(
        time_limit_seconds=240, nodes=1, gpus_per_node=2, node="n1"
    )


def test_processes_are_started_as_the_scale_says() -> None:
    assert make_job_spec(planned("2x2 srun")).launch == Launch("srun", 2, 1, 1, ("--mpi=pmix",))
    assert make_job_spec(planned("1x4x2")).launch == Launch(instances=2)
    empty = JobFactory(scale="2x1 srun", state=Job.State.PLANNED)
    assert make_job_spec(empty).launch == Launch()


def test_what_is_sent_along_is_what_the_plan_names() -> None:
    assert read_sent_files(planned()) == {}
    with pytest.raises(KeyError):
        read_sent_files(planned(files={"a.py": "0" * 64}))
    assert SentFile.objects.count() == 0


def test_a_line_of_blanks_is_no_line() -> None:
    assert split_lines(" a \n \n\nb") == (" a ", "b")


def test_a_partition_that_no_script_can_ask_for_says_why() -> None:
    fine = PartitionFactory.build(name="p", gpus_per_node=4)
    assert explain_partition_problem(fine, "slurm") == ""
    with_qos = PartitionFactory.build(qos="short")
    assert (
        explain_partition_problem(with_qos, "grid_engine")
        == "Grid Engine has no QOS such as 'short'"
    )
