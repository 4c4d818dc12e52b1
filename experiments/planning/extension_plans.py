"""The plan of an extension: which blocks are added, in which order, and how they are judged.

Pure where it can be: the frozen plan and a seed give the same blocks each time, so that a reviewer
can draw them again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from experiments.design import Scale, plan_blocks
from experiments.models import Environment, Experiment, Partition, Workload
from experiments.planning.estimands import PARTITION, count_planned_nodes
from experiments.planning.forecasts import Forecast, forecast
from experiments.statistics import numbers
from experiments.statistics.extension_levels import compute_extension_level
from experiments.statistics.values import ALPHA
from runners.payload import hash_payload

MOST_REPEATS = 1000
"""As many as a plan may have."""
NO_WORKLOADS = "Its frozen plan does not say what its workloads are. Clone it."
Place = tuple[str, str]
"""A configuration as a frozen plan names it: the workload's key, and the scale."""


def explain_unfit_plan(experiment: Experiment, partition: Partition | None) -> str:
    """Return why the plan of an experiment allows no extension; "" if it allows one.

    Its second verdict has to have a known error rate, and the first one must not move.
    """
    if experiment.looks > 1:
        return (
            "Its plan has interim analyses, which have used up the 5 % already: each was at a "
            "stricter level, so that the last one could be the last. Clone it with more repeats."
        )
    if experiment.further_metrics:
        return (
            "Its plan has several decisive metrics, and how often two verdicts on all of them are "
            "wrong is not known. Clone it with more repeats."
        )
    if experiment.training_margins:
        return (
            "Its plan has a margin of training, and how often two verdicts on training are wrong "
            "is not known. Clone it with more repeats."
        )
    if experiment.warm_up == Experiment.WarmUp.FOUND:
        return (
            "Its warm-up was detected over all runs: further ones could move the cut, and with it "
            "the first verdict. Clone it with more repeats."
        )
    if experiment.estimand == PARTITION and not experiment.spreads_nodes:
        return (
            "Its verdicts speak of the partition, and blocks may come to the same nodes again: how "
            "often two verdicts are then wrong is not known. Clone it with one block a node."
        )
    if count_most_added(experiment, partition) < 1:
        if experiment.estimand == PARTITION:
            return (
                f"Its verdicts speak of the partition, one block a node, and all of its "
                f"{numbers.count(partition.nodes if partition else 1, 'node')} were planned for."
            )
        return f"It has {numbers.count(experiment.repeats, 'repeat')}, and more are not possible."
    return ""


def count_most_added(experiment: Experiment, partition: Partition | None) -> int:
    """Return how many repeats can be added at most; each to a new node for the partition."""
    most = MOST_REPEATS
    if experiment.estimand == PARTITION:
        most = count_planned_nodes(partition, MOST_REPEATS)
    return most - experiment.repeats


def forecast_repeat(
    experiment: Experiment,
    places: Collection[Place],
    environments: Sequence[Environment],
    workloads: Mapping[str, Mapping[str, Any]],
) -> list[Forecast]:
    """Return what one more repeat of each of these configurations takes at most.

    As the form says it of a new experiment, by the frozen `workloads`.
    """
    return [
        forecast(
            workloads=[Workload(time_limit_seconds=workloads[workload]["time_limit_seconds"])],
            environments=environments,
            scales=[scale],
            repeats=1,
            paired=experiment.is_paired,
            cooldown_seconds=experiment.cooldown_seconds,
            rejected_again=experiment.rejected_again if experiment.rejection_rules else 0,
        )
        for workload, scale in sorted(places)
    ]


def freeze_extension(
    experiment: Experiment, places: Collection[Place], added: int, seed: int, verdicts: list[Any]
) -> dict[str, Any]:
    """Return the plan of an extension as plain JSON, which is hashed.

    `verdicts` are those that were known. The blocks are those that a plan of `added` repeats has by
    this seed, in its order, of the configurations `places` alone.
    """
    plan = experiment.plan or {}
    total = experiment.repeats + added
    blocks = plan_blocks(
        sorted(plan["workloads"], key=int),
        sorted(plan["environments"], key=int),
        [Scale.parse(scale) for scale in plan["scales"]],
        added,
        seed,
        paired=experiment.is_paired,
    )
    return {
        "extends_plan": experiment.plan_hash,
        "repeats": added,
        "after_repeats": [experiment.repeats, total],
        "levels": [ALPHA, compute_extension_level(experiment.repeats, added)],
        "verdicts_before": verdicts,
        "payload": hash_payload(),
        "order_seed": seed,
        "blocks": [
            {
                "workload": block.workload,
                "scale": str(block.scale),
                "repeat": experiment.repeats + block.repeat,
                "environments": list(block.environments),
            }
            for block in blocks
            if (block.workload, str(block.scale)) in places
        ],
    }
