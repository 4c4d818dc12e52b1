"""Rules for what a cluster can run: checked by the form before it is saved, and again at launch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.design import Scale
from experiments.models import Cluster, Environment, Partition, StagedImage, Workload
from experiments.planning import decisive_metrics, estimands, scale_rules
from experiments.planning.forecasts import forecast, read_scale
from experiments.statistics import numbers
from experiments.statistics.change_points import BLOCK, FEWEST_BLOCKS
from experiments.statistics.interim_analyses import count_most_analyses
from experiments.statistics.verdicts import FEWEST
from runners import interpreters
from runners.interpreters import NO_PYTHON
from runners.page_cache import why_not_prepared
from runners.schedulers import SCHEDULERS
from runners.workloads import WORKLOADS
from runners.workloads.page_cache import is_prepared
from runners.workloads.run_metrics import OF_JOB
from runners.workloads.several_jobs import explain_short_limit

WITHOUT_PYTHON = "command without {python}, startup and files"
"""What can be recorded outside, in an environment that has no Python at all."""


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
    known = [row for row in workloads if row.kind in WORKLOADS]
    _check_software(messages, workloads, environments)
    _check_scales(messages, cluster, partition, known, environments, scales)
    _check_metric(messages, known, primary_metric, paired=paired)
    for name, message in decisive_metrics.list_refusals(
        known, primary_metric, further_metrics, goal=goal, looks=looks, paired=paired
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
        _check_steps(messages, known, scales)
    _check_time_limits(messages, known)
    if partition and known and environments:
        longest = forecast(
            workloads=known,
            environments=environments,
            scales=scales,
            repeats=repeats,
            paired=paired,
            cooldown_seconds=cooldown_seconds,
        ).longest_job_seconds
        if why := _explain_long_job(longest, partition):
            messages["partition"].append(why)
    return dict(messages)


def _check_software(
    messages: defaultdict[str, list[str]],
    workloads: Sequence[Workload],
    environments: Sequence[Environment],
) -> None:
    """Add which workloads nothing here starts, and which environments lack what they need."""
    known = [row for row in workloads if row.kind in WORKLOADS]
    for row in workloads:
        if row.kind not in WORKLOADS:
            messages["workloads"].append(f"{row} is only known from imported logs.")
    for sentence in (
        *list_without_python(known, environments),
        *_list_unprepared(known, environments),
    ):
        messages["environments"].append(sentence)


def _check_time_limits(
    messages: defaultdict[str, list[str]], workloads: Sequence[Workload]
) -> None:
    """Add which workloads have too little time, or that there is none."""
    for workload in workloads:
        if why := explain_short_limit(workload.parameters, workload.time_limit_seconds):
            messages["workloads"].append(f"{workload} {why}")
    if not workloads:
        messages["workloads"].append("Choose at least one workload.")


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
    if len({str(read_scale(scale) or scale) for scale in scales}) != len(scales):
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
    for scale in filter(None, map(read_scale, scales)):
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
