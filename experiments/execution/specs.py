"""Specifications of jobs, runs and environments for the runners, made from rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from experiments.design import Scale
from experiments.models import Job, Partition, Run, Segment, SentFile
from experiments.models.segment import count_most_segments
from experiments.planning import forecasts
from experiments.planning.scale_rules import count_processes_on_a_node
from runners.code_copies import make_code_spec
from runners.data_sets import make_data_spec
from runners.jobs import (
    CodeSpec,
    DataSpec,
    EnvironmentSpec,
    JobSpec,
    Launch,
    Resources,
    RunSpec,
    SegmentSpec,
)
from runners.node_rules import OTHERS
from runners.schedulers import SCHEDULERS


def name_job_directory(job: Job) -> str:
    """Return the job's directory on its cluster."""
    return f"{job.cluster.work_directory.rstrip('/')}/jobs/{job.uid}-{job.attempt}"


def make_job_spec(job: Job, planned: Sequence[Run] | None = None) -> JobSpec:
    """Return the job's specification, from the frozen plan and never from today's catalogue.

    `planned` are the runs of a job that is not stored.
    """
    runs = tuple(
        RunSpec(
            uid=run.uid,
            position=run.position,
            workload=run.spec["workload"]["kind"],
            parameters=run.spec["workload"]["parameters"],
            environment=make_environment_spec(run.spec["environment"]),
            time_limit_seconds=run.spec["workload"]["time_limit_seconds"],
            data=_make_data_spec(run.spec["workload"]),
            code=_make_code_spec(run.spec["workload"]),
            segment=_make_segment_spec(run),
        )
        for run in sorted(
            job.runs.all() if planned is None else planned, key=lambda run: run.position
        )
    )
    return JobSpec(
        uid=job.uid,
        name=job.name,
        directory=job.directory or name_job_directory(job),
        runs=runs,
        resources=_resources(job, len(runs)),
        launch=_launch(job, runs),
        setup_lines=split_lines(job.cluster.setup_lines),
        cooldown_seconds=job.experiment.cooldown_seconds,
        counts_gpu_processes=_counts_gpu_processes(job, planned),
    )


def _make_data_spec(workload: dict[str, Any]) -> DataSpec | None:
    """Return the data set of a run, from the frozen plan."""
    return make_data_spec(workload["data_set"]) if workload.get("data_set") else None


def _make_code_spec(workload: dict[str, Any]) -> CodeSpec | None:
    """Return the code of a run, from the frozen plan."""
    return make_code_spec(workload["code"]) if workload.get("code") else None


def _make_segment_spec(run: Run) -> SegmentSpec | None:
    """Return which of several jobs this is of a run; None of a run that has one alone."""
    most = count_most_segments(run.spec["workload"])
    if most == 1:
        return None
    stored = (
        Segment.objects.filter(run=run).order_by("-number") if run.pk else Segment.objects.none()
    )
    earlier = tuple(stored.values_list("directory", flat=True))
    return SegmentSpec(len(earlier) + 1, most, earlier)


def _counts_gpu_processes(job: Job, planned: Sequence[Run] | None) -> bool:
    """Return whether a rule of the plan asks who else computes on the job's GPUs."""
    runs = job.runs.all() if planned is None else planned
    has_rule = any(run.spec.get("reject", {}).get(OTHERS) for run in runs)
    return has_rule and Scale.parse(job.scale).gpus_per_node > 0


def read_sent_files(job: Job) -> dict[str, bytes]:
    """Return the files that the job's workload sends along, by name.

    Raises KeyError with the sha256 of a file that is not kept any more.
    """
    files = job.runs.all()[0].spec["workload"]["parameters"].get("files")
    return SentFile.objects.contents(files) if files else {}


def list_nodes_to_avoid(job: Job) -> list[str]:
    """Return the nodes that the job is not to run on: without a GPU, or with other blocks."""
    without_gpu = [node for node in job.avoided_nodes.split(",") if node]
    return list(dict.fromkeys([*without_gpu, *(job.excluded_nodes or [])]))


def split_lines(text: str) -> tuple[str, ...]:
    """Return the lines of a text that are not blank."""
    return tuple(line for line in text.splitlines() if line.strip())


def make_environment_spec(spec: dict[str, Any]) -> EnvironmentSpec:
    """Return the runners' specification for what `freeze.freeze_environment` has stored."""
    tuples = {name: tuple(spec[name]) for name in ("options", "binds", "setup_lines")}
    variables = tuple((name, value) for name, value in spec["variables"])
    return EnvironmentSpec(**{**spec, **tuples, "variables": variables})


def _resources(job: Job, runs: int) -> Resources:
    scale, partition = Scale.parse(job.scale), job.experiment.partition
    seconds = forecasts.compute_job_seconds(
        job.workload, runs=runs, cooldown_seconds=job.experiment.cooldown_seconds
    )
    resources = Resources(
        nodes=scale.nodes,
        gpus_per_node=scale.gpus_per_node,
        time_limit_seconds=math.ceil(seconds / 60) * 60,
        node=job.node,
        avoided_nodes=",".join(list_nodes_to_avoid(job)),
    )
    return add_partition(resources, partition) if partition else resources


def _launch(job: Job, runs: tuple[RunSpec, ...]) -> Launch:
    """Return how the runs' processes are started: all runs of a job share workload and scale."""
    if not runs:
        return Launch()
    scale, partition = Scale.parse(job.scale), job.experiment.partition
    options = getattr(partition, f"{scale.launcher}_options", []) if scale.launcher else []
    return Launch(
        launcher=scale.launcher,
        nodes=scale.nodes,
        processes_per_node=count_processes_on_a_node(scale, runs[0].workload, runs[0].parameters),
        instances=scale.instances_per_node,
        options=tuple(options),
    )


def add_partition(resources: Resources, partition: Partition) -> Resources:
    """Return the resources with what jobs of this partition request."""
    return replace(
        resources,
        cpus_per_node=partition.cpus_per_run,
        memory_mb=partition.memory_mb,
        partition=partition.name,
        account=partition.account,
        qos=partition.qos,
        directives=tuple(partition.directives),
        gres=partition.gres,
        gpus_on_node=partition.gpus_per_node,
        side_by_side=partition.side_by_side,
    )


def explain_partition_problem(partition: Partition, scheduler: str) -> str:
    """Return why no job script can request this partition; "" if one can."""
    everything = Resources(time_limit_seconds=60, gpus_per_node=partition.gpus_per_node)
    job = JobSpec("x", "tare-x-1", "/x/jobs/x-1", (), add_partition(everything, partition))
    try:
        SCHEDULERS[scheduler]().render_header(job)
    except ValueError as problem:
        return str(problem)
    return ""
