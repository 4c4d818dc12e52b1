"""The most that an experiment will use of its cluster, counted before anything is sent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.design import Scale
from experiments.models import Environment, Workload
from experiments.models.segment import count_most_segments
from experiments.planning.frozen_code import PROOF_SECONDS
from experiments.planning.frozen_data import compute_proof_seconds, load_data_sets
from runners.page_cache import MOST_SECONDS
from runners.workloads.page_cache import is_prepared

# Time that a job needs beside its runs: start, snapshots, check sums.
JOB_OVERHEAD_SECONDS = 60


@dataclass(frozen=True)
class Forecast:
    """The most that an experiment will use of the cluster."""

    combinations: int
    """Configurations, each in every environment."""
    blocks: int
    jobs: int
    runs: int
    longest_job_seconds: int
    gpu_hours_at_most: float
    node_hours_at_most: float
    """Of the nodes on which runs take place, whatever else runs there."""
    longest_job_gpu_hours: float
    """Of the job that may take most."""
    further_gpu_hours: float = 0.0
    """At most so many more, where rules of the plan reject every run as often as they may."""


def compute_job_seconds(workload: Workload, *, runs: int, cooldown_seconds: int) -> int:
    """Return the time limit of a job that runs `workload` `runs` times, in seconds."""
    measuring = runs * workload.time_limit_seconds + (runs - 1) * cooldown_seconds
    if is_prepared(workload.parameters):
        measuring += runs * MOST_SECONDS
    proof = compute_proof_seconds(workload)
    if workload.code_source:
        proof += PROOF_SECONDS
    return measuring + proof + JOB_OVERHEAD_SECONDS


def compute_gpu_seconds(workload: Workload, *, scale: str, runs: int, cooldown_seconds: int) -> int:
    """Return the GPUs that a job asks for times its time limit, which is in whole minutes."""
    seconds = compute_job_seconds(workload, runs=runs, cooldown_seconds=cooldown_seconds)
    return Scale.parse(scale).gpus * math.ceil(seconds / 60) * 60


def forecast(
    *,
    workloads: Sequence[Workload],
    environments: Sequence[Environment],
    scales: Sequence[str],
    repeats: int,
    paired: bool,
    cooldown_seconds: int = 0,
    rejected_again: int = 0,
) -> Forecast:
    """Count the runs and jobs of an experiment; scales that cannot be read count nothing.

    `rejected_again`: how often a run may be run once more because rules of the plan rejected it.
    """
    load_data_sets(workloads)
    sizes = [scale for scale in map(read_scale, scales) if scale]
    blocks = len(workloads) * len(sizes) * repeats
    runs_a_job = len(environments) if paired else 1
    seconds = sum(
        workload.time_limit_seconds * count_most_segments({"parameters": workload.parameters})
        for workload in workloads
    )
    gpus = sum(scale.gpus for scale in sizes)
    hours_of_each = seconds * repeats * len(environments) / 3600
    gpu_hours = hours_of_each * gpus
    return Forecast(
        combinations=len(workloads) * len(environments) * len(sizes),
        blocks=blocks,
        jobs=blocks if paired else blocks * len(environments),
        runs=blocks * len(environments),
        longest_job_seconds=max(
            (
                compute_job_seconds(workload, runs=runs_a_job, cooldown_seconds=cooldown_seconds)
                for workload in workloads
            ),
            default=0,
        ),
        gpu_hours_at_most=gpu_hours,
        node_hours_at_most=hours_of_each * sum(scale.nodes for scale in sizes),
        further_gpu_hours=gpu_hours * rejected_again,
        longest_job_gpu_hours=max(
            (
                compute_gpu_seconds(
                    workload, scale=str(scale), runs=runs_a_job, cooldown_seconds=cooldown_seconds
                )
                / 3600
                for workload in workloads
                for scale in sizes
            ),
            default=0.0,
        ),
    )


def read_scale(text: str) -> Scale | None:
    """Return the scale that a text writes; None where it writes none."""
    try:
        return Scale.parse(text)
    except ValueError:
        return None
