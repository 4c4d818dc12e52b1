"""How far an experiment is: its cells, with their counts and values, and what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count

from dashboard.marks import marks
from experiments.comparisons import primary_metric
from experiments.comparisons.warm_ups import warm_ups
from experiments.models import Environment, Experiment, Measurement, Run, Workload
from runners.workloads import Metric

# The strip of a cell is drawn on a canvas this wide.
STRIP_WIDTH = 240
STRIP_MARGIN = 6


@dataclass(frozen=True)
class Tally:
    """How many runs are in which state."""

    states: Counter[str]

    @property
    def total(self) -> int:
        return self.states.total()

    @property
    def ended(self) -> int:
        return sum(self.states[state] for state in Run.FINAL)

    @property
    def succeeded(self) -> int:
        return self.states[Run.State.SUCCEEDED]

    @property
    def alive(self) -> bool:
        return self.ended < self.total

    @property
    def parts(self) -> list[tuple[str, int]]:
        """States other than planned with their counts, for a bar."""
        order = ("succeeded", "excluded", "failed", "cancelled", "running")
        return [(state, self.states[state]) for state in order if self.states[state]]

    def seconds_left(self, launched_at: datetime | None, now: datetime) -> float | None:
        """Return how long the rest takes at the pace so far; None while there is no pace."""
        if launched_at is None or not self.ended or not self.alive:
            return None
        return (now - launched_at).total_seconds() / self.ended * (self.total - self.ended)


@dataclass(frozen=True)
class Cell:
    """One workload, one environment, one scale."""

    environment: Environment
    mark: int
    tally: Tally
    values: Sequence[float]
    limits: tuple[float, float]

    @property
    def points(self) -> list[float]:
        """Where the values stand on the strip; all cells of a row share one scale."""
        return [self._place(value) for value in self.values]

    @property
    def mean(self) -> float | None:
        return self._place(sum(self.values) / len(self.values)) if self.values else None

    def _place(self, value: float) -> float:
        low, high = self.limits
        share = (value - low) / (high - low) if high > low else 0.5
        return round(STRIP_MARGIN + share * (STRIP_WIDTH - 2 * STRIP_MARGIN), 1)


@dataclass(frozen=True)
class Row:
    workload: Workload
    scale: str
    metric: Metric
    cells: list[Cell]


@dataclass(frozen=True)
class Matrix:
    environments: list[tuple[Environment, int]]  # with their marks, baseline first
    rows: list[Row]
    tally: Tally


def matrix(experiment: Experiment) -> Matrix:
    """Count the runs of every cell; at most seven queries, however many runs there are."""
    index = marks(experiment)
    environments = sorted(experiment.environments.all(), key=lambda row: index[row.name])
    states = _states(experiment)
    workloads = [
        (row, primary_metric(experiment, row)) for row in experiment.workloads.order_by("name")
    ]
    values = _values(experiment, workloads, [row.name for row in environments])
    rows = []
    for workload, metric in workloads:
        for scale in experiment.scales:
            keys = [(workload.pk, scale, row.pk) for row in environments]
            found = [values.get(key, []) for key in keys]
            known = [value for cell in found for value in cell]
            limits = (min(known), max(known)) if known else (0.0, 0.0)
            cells = [
                Cell(row, index[row.name], Tally(states.get(key, Counter())), cell, limits)
                for row, key, cell in zip(environments, keys, found, strict=True)
            ]
            rows.append(Row(workload, scale, metric, cells))
    total = sum(states.values(), Counter[str]())
    return Matrix([(row, index[row.name]) for row in environments], rows, Tally(total))


def _states(experiment: Experiment) -> dict[tuple[int, str, int], Counter[str]]:
    counted = experiment.runs.order_by().values_list("workload", "scale", "environment", "state")
    states: dict[tuple[int, str, int], Counter[str]] = {}
    for workload, scale, environment, state, count in counted.annotate(count=Count("pk")):
        states.setdefault((workload, scale, environment), Counter())[state] += count
    return states


def _values(
    experiment: Experiment, workloads: Sequence[tuple[Workload, Metric]], environments: list[str]
) -> dict[tuple[int, str, int], list[float]]:
    """Return the values that are compared, by workload, scale and environment."""
    metrics = {workload.pk: metric for workload, metric in workloads}
    starts = {}
    if experiment.warm_up == Experiment.WarmUp.FOUND:
        starts = warm_ups(experiment, [row for row, _ in workloads], metrics, environments)
    measured = Measurement.objects.filter(
        run__experiment=experiment,
        run__state=Run.State.SUCCEEDED,
        metric__in={metric.name for metric in metrics.values()},
    )
    values: dict[tuple[int, str, int], list[float]] = {}
    fields = ("run__workload", "run__scale", "run__environment", "run__uid", "metric", "value")
    for workload, scale, environment, uid, metric, value in measured.order_by().values_list(
        *fields
    ):
        if metric == metrics[workload].name:
            group = starts.get((workload, scale))
            decided = group.value(uid, value) if group else value
            values.setdefault((workload, scale, environment), []).append(decided)
    return values
