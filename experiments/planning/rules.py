"""Rules for what a cluster can run: checked by the form before it is saved, and again at launch."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.design import Scale
from experiments.models import Cluster, Environment, Partition, StagedImage, Workload
from experiments.models.segment import count_most_segments
from experiments.planning import decisive_metrics, estimands, scale_rules
from experiments.planning.frozen_code import PROOF_SECONDS
from experiments.planning.frozen_data import compute_proof_seconds, load_data_sets
from experiments.statistics import numbers
from experiments.statistics.change_points import BLOCK, FEWEST_BLOCKS
from experiments.statistics.interim_analyses import count_most_analyses
from experiments.statistics.verdicts import FEWEST
from runners import interpreters
from runners.interpreters import NO_PYTHON
from runners.page_cache import MOST_SECONDS, why_not_prepared
from runners.schedulers import SCHEDULERS
from runners.workloads import WORKLOADS
from runners.workloads.page_cache import is_prepared
from runners.workloads.run_metrics import OF_JOB
from runners.workloads.several_jobs import explain_short_limit

# Time that a job needs beside its runs: start, snapshots, check sums.
JOB_OVERHEAD_SECONDS = 60
WITHOUT_PYTHON = "command without {python}, startup and files"
"""What can be recorded outside, in an environment that has no Python at all."""


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
    sizes = [scale for scale in map(_read_scale, scales) if scale]
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


def list_refusals(
    *,
    cluster: Cluster,
    partition: Partition | None,
    workloads: Sequence[Workload],
    environments: Sequence[Environment],
    baseline: Environment | None,
    scales: Sequence[str],
    repeats: int,
    paired: bool,
    cooldown_seconds: int = 0,
    primary_metric: str = "",
    looks: int = 1,
    find_warm_up: bool = False,
    spreads_nodes: bool = False,
    estimand: str = "",
    goal: str = "",
    further_metrics: Mapping[int, Mapping[str, Any]] = {},
) -> dict[str, list[str]]:
    """Return the reasons why this cannot run, by the form field to correct; empty if it can.

    `further_metrics` by their places among the decisive metrics, from 2 on.
    """
    messages: defaultdict[str, list[str]] = defaultdict(list)
    _check_cluster(messages, cluster, partition, environments, baseline)
    for workload in [row for row in workloads if row.kind not in WORKLOADS]:
        messages["workloads"].append(f"{workload} is only known from imported logs.")
    workloads = [row for row in workloads if row.kind in WORKLOADS]
    messages["environments"] += list_without_python(workloads, environments)
    messages["environments"] += _list_unprepared(workloads, environments)
    if not messages["environments"]:
        del messages["environments"]
    _check_scales(messages, cluster, partition, workloads, environments, scales)
    _check_metric(messages, workloads, primary_metric, paired=paired)
    for name, message in decisive_metrics.list_refusals(
        workloads, primary_metric, further_metrics, goal=goal, looks=looks, paired=paired
    ):
        messages[name].append(message)
    _check_analyses(
        messages,
        partition,
        repeats=repeats,
        looks=looks,
        estimand=estimand,
        spreads_nodes=spreads_nodes,
    )
    if spreads_nodes and (
        problem := estimands.explain_why_not_spread(cluster, paired=paired)
        or estimands.explain_why_same_node(partition)
    ):
        messages["spreads_nodes"].append(problem)
    if find_warm_up:
        _check_steps(messages, workloads, scales)
    for workload in workloads:
        if why := explain_short_limit(workload.parameters, workload.time_limit_seconds):
            messages["workloads"].append(f"{workload} {why}")
    if not workloads:
        messages["workloads"].append("Choose at least one workload.")
    if partition and workloads and environments:
        longest = forecast(
            workloads=workloads,
            environments=environments,
            scales=scales,
            repeats=repeats,
            paired=paired,
            cooldown_seconds=cooldown_seconds,
        ).longest_job_seconds
        if why := _explain_long_job(longest, partition):
            messages["partition"].append(why)
    return dict(messages)


def _check_analyses(
    messages: defaultdict[str, list[str]],
    partition: Partition | None,
    *,
    repeats: int,
    looks: int,
    estimand: str,
    spreads_nodes: bool,
) -> None:
    """Add why the data cannot be judged so often."""
    if looks > count_most_analyses(repeats):
        most = count_most_analyses(repeats)
        messages["looks"].append(
            f"{looks} interim analyses need at least {looks * FEWEST} repeats: between one and "
            f"the next come {FEWEST}, the fewest that a verdict needs. "
            f"{numbers.count(repeats, 'repeat')} "
            f"allow{'s' * (repeats == 1)} {most} interim analys{'i' if most == 1 else 'e'}s."
        )
    if looks > 1 and (
        problem := estimands.explain_why_one_analysis(
            estimand, partition, repeats=repeats, spreads=spreads_nodes
        )
    ):
        messages["looks"].append(problem)


def _explain_long_job(seconds: float, partition: Partition) -> str:
    """Return why the longest job is too long for its partition; "" if it is not."""
    limit = 60 * partition.time_limit_minutes
    if seconds <= limit:
        return ""
    job_time, time_limit = numbers.duration(seconds), numbers.duration(limit)
    if job_time == time_limit:  # days are written without minutes
        job_time = f"more than {time_limit}"
    return (
        f"The longest job may take {job_time}; {partition.name} ends jobs after {time_limit}. "
        "Shorten a workload's time limit, or choose fewer environments or the independent design."
    )


def _list_unprepared(
    workloads: Sequence[Workload], environments: Sequence[Environment]
) -> list[str]:
    """Return a sentence for each environment whose files cannot be made cold or warm."""
    prepared = [row for row in workloads if is_prepared(row.parameters)]
    sentences = []
    for environment in environments if prepared else ():
        staged = environment.staged_image
        why = why_not_prepared(
            environment.kind, staged.format if staged else "", environment.python
        )
        if why:
            sentences.append(
                f"{environment} cannot have a cold or warm page cache, which {prepared[0]} asks "
                f"for: {why}. Leave it out, or leave the page cache as it is."
            )
    return sentences


def has_python(environment: Environment) -> bool:
    """Return whether there is a Python in it that records runs, as its entry says."""
    return interpreters.has_python(environment.python)


def list_without_python(
    workloads: Sequence[Workload], environments: Sequence[Environment]
) -> list[str]:
    """Return a sentence for each environment without Python that a workload needs.

    An older one will do for {python} in a command that is recorded outside.
    """
    sentences = []
    for environment in environments:
        if has_python(environment):
            continue
        is_older = environment.python != NO_PYTHON
        names = [
            str(row)
            for row in workloads
            if WORKLOADS[row.kind].needs_python(row.parameters)
            and not (is_older and WORKLOADS[row.kind].is_recorded_outside(row.parameters))
        ]
        if names:
            kinds = "command, startup and files" if is_older else WITHOUT_PYTHON
            sentences.append(
                f"{environment} has no Python 3.8 or later (its interpreter is "
                f"{environment.python!r}), which {', '.join(names)} need{'s' * (len(names) == 1)}: "
                "choose another environment, or set “Recorded” to outside in the workload "
                f"({kinds})."
            )
    return sentences


def describe_unready_images(environments: Sequence[Environment]) -> list[str]:
    """Return a sentence for each environment whose image is not on the cluster yet."""
    return [
        f"{environment}: {environment.staged_image} is {environment.staged_image.state}."
        for environment in environments
        if environment.staged_image and environment.staged_image.state != StagedImage.State.READY
    ]


def _check_cluster(
    messages: defaultdict[str, list[str]],
    cluster: Cluster,
    partition: Partition | None,
    environments: Sequence[Environment],
    baseline: Environment | None,
) -> None:
    if partition is None and SCHEDULERS[cluster.scheduler].has_partitions:
        messages["partition"].append(f"Choose a partition of {cluster}.")
    if partition and partition.cluster_id != cluster.pk:
        messages["partition"].append(f"{partition.name} is no partition of {cluster}.")
    elif partition and not partition.enabled:
        messages["partition"].append(
            f"{partition.name} is not in service any more: choose another partition."
        )
    for environment in environments:
        if environment.cluster_id != cluster.pk:
            messages["environments"].append(f"{environment} is not an environment of {cluster}.")
    if len(environments) < 2:
        messages["environments"].append("Choose the baseline and at least one environment more.")
    if baseline is not None and baseline not in environments:
        messages["baseline"].append("The baseline is one of the environments to be run.")


def _check_scales(
    messages: defaultdict[str, list[str]],
    cluster: Cluster,
    partition: Partition | None,
    workloads: Sequence[Workload],
    environments: Sequence[Environment],
    scales: Sequence[str],
) -> None:
    if not scales:
        messages["scales"].append("Choose at least one scale, such as 1x1: one node, one GPU.")
    if len({str(_read_scale(scale) or scale) for scale in scales}) != len(scales):
        messages["scales"].append("Each scale is named once.")
    for text in scales:
        try:
            scale = Scale.parse(text)
        except ValueError as error:
            messages["scales"].append(str(error))
            continue
        messages["scales"] += scale_rules.list_refusals(
            scale, cluster, partition, workloads, environments
        )
    if not messages["scales"]:
        del messages["scales"]


def _check_metric(
    messages: defaultdict[str, list[str]],
    workloads: Sequence[Workload],
    metric: str,
    *,
    paired: bool,
) -> None:
    for workload in workloads:
        kind = WORKLOADS[workload.kind]
        own = {declared.name for declared in kind.list_metrics(workload.parameters)}
        if paired and metric in OF_JOB - own:
            messages["primary_metric"].append(
                f"All environments of a block run in one job, so their {metric} is the same: "
                "choose the independent design."
            )
            return
        reported = [known.name for known in kind.list_all_metrics(workload.parameters)]
        if metric and metric not in reported:
            messages["primary_metric"].append(
                f"{workload} does not report {metric}. It reports {', '.join(reported)}."
            )


def _check_steps(
    messages: defaultdict[str, list[str]], workloads: Sequence[Workload], scales: Sequence[str]
) -> None:
    for scale in filter(None, map(_read_scale, scales)):
        if scale.is_packed:
            messages["warm_up"].append(
                f"{scale} packs {scale.instances_per_node} instances into a run, and each settles "
                "at a step of its own: choose the fixed number of steps."
            )
    needed = BLOCK * FEWEST_BLOCKS
    for workload in workloads:
        declared = {
            parameter.name: parameter.default for parameter in WORKLOADS[workload.kind].parameters
        }
        steps = (declared | workload.parameters).get("steps")
        if steps is not None and int(steps) < needed:
            messages["warm_up"].append(
                f"{workload} has {steps} steps; where it settles can be found from {needed} on."
            )


def _read_scale(text: str) -> Scale | None:
    try:
        return Scale.parse(text)
    except ValueError:
        return None
