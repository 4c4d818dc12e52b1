"""The environments that are compared in each configuration: all, or those that have logs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from experiments.models import Experiment, Workload
from experiments.statistics import numbers

NAMED = 10
"""Workloads that a sentence names."""
Arms = dict[tuple[Workload, str], list[str]]
"""Workload and scale -> environments, the baseline first."""


def list_compared_arms(
    experiment: Experiment, workloads: Sequence[Workload], environments: Sequence[str]
) -> Arms:
    """Return the environments of each configuration; `environments` begins with the baseline.

    A planned configuration is included whether it has run or not. Imported logs have no plan: an
    environment is included in the configurations of which it has logs.
    """
    places = [(workload, scale) for workload in workloads for scale in experiment.scales]
    if not experiment.imported_at:
        return {place: list(environments) for place in places}
    logged = set(
        experiment.runs.order_by()
        .values_list("workload_id", "scale", "environment__name")
        .distinct()
    )
    arms = {
        (workload, scale): [name for name in environments if (workload.pk, scale, name) in logged]
        for workload, scale in places
    }
    return {place: names for place, names in arms.items() if names}


def list_places(experiment: Experiment, arms: Arms) -> list[tuple[Workload, str]]:
    """Return the configurations that are compared, in the order of their numbers from 1."""
    if not experiment.imported_at:
        return list(arms)
    return [place for place, names in arms.items() if is_compared(names, experiment.baseline.name)]


def is_compared(names: Sequence[str], baseline: str) -> bool:
    """Return whether the names are those of the baseline and of another environment."""
    return len(names) > 1 and names[0] == baseline


def describe_left_out(arms: Arms, environments: Sequence[str]) -> list[str]:
    """Return a sentence for each environment that has logs where the baseline has none, or none
    where the baseline has some."""
    baseline, *others = environments
    return [
        f"{name} and {baseline} are not compared where only one of them has logs: {_listed(alone)}."
        for name in others
        if (alone := _alone(arms, {name, baseline}))
    ]


def _alone(arms: Arms, pair: set[str]) -> dict[str, list[str]]:
    """Return the scales, by workload, at which only one of the pair was run."""
    alone: defaultdict[str, list[str]] = defaultdict(list)
    for (workload, scale), names in arms.items():
        if len(pair.intersection(names)) == 1:
            alone[workload.name].append(scale)
    return alone


def _listed(alone: Mapping[str, Sequence[str]]) -> str:
    named = [f"{workload} ({', '.join(scales)})" for workload, scales in alone.items()]
    if len(named) > NAMED:
        named[NAMED:] = [numbers.count(len(named) - NAMED, "other workload")]
    return "; ".join(named)
