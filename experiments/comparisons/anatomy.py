"""The anatomy of overhead: how long each phase of a run takes, environment by environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from experiments.comparisons import ExperimentComparison
from experiments.models import Run


@dataclass(frozen=True)
class Body:
    """The runs of one environment: seconds as medians over them.

    A phase that some runs have not gone through took them no time.
    """

    environment: str
    runs: int
    phases: Mapping[str, float]
    total: float
    """The median of whole runs, which medians of phases need not add up to."""


@dataclass(frozen=True)
class Anatomy:
    """One workload at one scale, the baseline first."""

    workload: str
    scale: str
    bodies: list[Body]

    @property
    def title(self) -> str:
        return f"{self.workload} · {self.scale}"


def anatomies(comparison: ExperimentComparison) -> list[Anatomy]:
    """Return the phases of each workload and scale that runs have told of; one query.

    Of the runs that the last planned look has judged; before the first one there is none.
    """
    judged = list(comparison.stage.judgements)
    if not judged:
        return []
    runs = (
        Run.objects.filter(
            experiment=comparison.experiment,
            state=Run.State.SUCCEEDED,
            repeat__lte=judged[-1].repeats or comparison.experiment.repeats,
        )
        .exclude(phases={})
        .order_by("workload__name", "scale")
        .values_list("workload__name", "scale", "environment__name", "phases")
    )
    found: dict[tuple[str, str], dict[str, list[dict[str, float]]]] = {}
    for workload, scale, environment, phases in runs:
        found.setdefault((workload, scale), {}).setdefault(environment, []).append(phases)
    names = comparison.environments
    return [
        Anatomy(*cell, [_body(name, told[name]) for name in names if name in told])
        for cell, told in found.items()
    ]


def _body(environment: str, runs: Sequence[Mapping[str, float]]) -> Body:
    names = dict.fromkeys(name for phases in runs for name in phases)
    return Body(
        environment,
        len(runs),
        {name: median(phases.get(name, 0.0) for phases in runs) for name in names},
        median(sum(phases.values()) for phases in runs),
    )
