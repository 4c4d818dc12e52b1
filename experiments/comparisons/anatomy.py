"""The anatomy of overhead: how long each phase of a run takes, environment by environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from experiments.comparisons import ExperimentComparison
from experiments.comparisons.group_order import sort_by_groups
from experiments.models import Run


@dataclass(frozen=True)
class Body:
    """The phases of one environment, in seconds: medians over its runs.

    A phase that a run did not go through counts as 0 s.
    """

    environment: str
    runs: int
    phases: Mapping[str, float]
    total: float
    """The median of whole runs; the medians of phases need not add up to it."""


@dataclass(frozen=True)
class Anatomy:
    """The phases of one workload at one scale, the baseline first."""

    workload: str
    scale: str
    bodies: list[Body]

    @property
    def title(self) -> str:
        return f"{self.workload} · {self.scale}"


def has_anatomies(comparison: ExperimentComparison) -> bool:
    """Return whether any run that counts reported its phases; at most one query."""
    return any(True for _ in comparison.stage.judgements) and comparison.run_details.has_phases


def collect_anatomies(comparison: ExperimentComparison) -> list[Anatomy]:
    """Return the phases of each workload and scale whose runs reported any; one query.

    Only runs that an interim analysis has judged count; before the first one there are none.
    """
    judged = list(comparison.stage.judgements)
    if not judged:
        return []
    runs = (
        Run.objects.filter(
            experiment=comparison.experiment,
            state=Run.State.SUCCEEDED,
            repeat__lte=judged[-1].repeats or comparison.experiment.all_repeats,
        )
        .exclude(phases={})
        .order_by("pk")
        .values_list("workload__name", "scale", "environment__name", "phases")
    )
    phases_by_group: dict[tuple[str, str], dict[str, list[dict[str, float]]]] = {}
    for workload, scale, environment, phases in runs:
        phases_by_group.setdefault((workload, scale), {}).setdefault(environment, []).append(phases)
    names = comparison.environments
    return [
        Anatomy(
            *cell,
            [
                _body(name, phases_by_environment[name])
                for name in names
                if name in phases_by_environment
            ],
        )
        for cell, phases_by_environment in sort_by_groups(comparison, phases_by_group)
    ]


def _body(environment: str, runs: Sequence[Mapping[str, float]]) -> Body:
    names = dict.fromkeys(name for phases in runs for name in phases)
    return Body(
        environment,
        len(runs),
        {name: median(phases.get(name, 0.0) for phases in runs) for name in names},
        median(sum(phases.values()) for phases in runs),
    )
