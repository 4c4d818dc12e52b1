"""What stands against a launch, for whoever is about to launch: drafts, and what would be one."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.images.startable import explain_not_startable
from experiments.models import Environment, Experiment, Workload
from experiments.planning import rules
from experiments.planning.decisive_metrics import number_metrics
from experiments.planning.frozen_code import describe_unready_code
from experiments.planning.frozen_data import describe_unready_data


def list_launch_refusals(
    definition: Experiment,
    *,
    workloads: Sequence[Workload],
    environments: Sequence[Environment],
    baseline: Environment,
) -> dict[str, list[str]]:
    """Return why a definition cannot be launched, by form field; it need not be stored.

    Who may use its rows, and whether its software is the same, only a stored draft tells.
    """
    cluster, partition = definition.cluster, definition.partition
    problems = list_broken_rules(
        definition, workloads=workloads, environments=environments, baseline=baseline
    )
    for name, sentences in (
        ("environments", rules.describe_unready_images(environments)),
        ("environments", explain_not_startable(environments, cluster, partition)),
        ("workloads", describe_unready_data(workloads, cluster)),
        ("workloads", describe_unready_code(workloads, cluster)),
    ):
        if sentences:
            problems.setdefault(name, []).extend(sentences)
    return problems


def list_broken_rules(
    definition: Experiment,
    *,
    workloads: Sequence[Workload],
    environments: Sequence[Environment],
    baseline: Environment,
) -> dict[str, list[str]]:
    """Return which rules of the form a definition breaks, by form field; it need not be stored.

    Whether its images, processors and data are ready is not asked.
    """
    return rules.list_refusals(
        cluster=definition.cluster,
        partition=definition.partition,
        workloads=workloads,
        environments=environments,
        baseline=baseline,
        scales=definition.scales,
        repeats=definition.repeats,
        paired=definition.is_paired,
        cooldown_seconds=definition.cooldown_seconds,
        primary_metric=definition.primary_metric,
        looks=definition.looks,
        find_warm_up=definition.warm_up == Experiment.WarmUp.FOUND,
        spreads_nodes=definition.spreads_nodes,
        estimand=definition.estimand,
        goal=definition.goal,
        further_metrics=number_metrics(definition),
    )
