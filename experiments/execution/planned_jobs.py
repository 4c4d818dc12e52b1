"""Jobs and runs as the blocks of a plan have them, before they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.models import Experiment, Job, Run, Workload
from experiments.planning import forecasts
from experiments.planning.freeze import make_workload_of_repeat
from runners.kept_output import OUTPUT_MIB


def make_job(
    experiment: Experiment, workload: Workload, block: Mapping[str, Any], index: int, payload: str
) -> Job:
    """Return the job of a block, from the frozen plan; `payload` is the hash of what travels."""
    return Job(
        experiment=experiment,
        cluster=experiment.cluster,
        workload=workload,
        scale=block["scale"],
        repeat=block["repeat"],
        block=index,
        payload_hash=payload,
        gpu_seconds=forecasts.compute_gpu_seconds(
            workload,
            scale=block["scale"],
            runs=len(block["environments"]),
            cooldown_seconds=experiment.cooldown_seconds,
        ),
    )


def make_runs(
    experiment: Experiment, job: Job, block: Mapping[str, Any], plan: Mapping[str, Any]
) -> list[Run]:
    """Return the runs of a block in their order, each with what it is to run."""
    workload = make_workload_of_repeat(plan["workloads"][block["workload"]], job.repeat)
    return [
        Run(
            experiment=experiment,
            job=job,
            workload_id=job.workload_id,
            environment_id=int(environment),
            scale=job.scale,
            repeat=job.repeat,
            position=position,
            spec={
                "workload": workload,
                "environment": plan["environments"][environment],
                **{name: plan[name] for name in ("reject", OUTPUT_MIB) if name in plan},
            },
        )
        for position, environment in enumerate(block["environments"])
    ]
