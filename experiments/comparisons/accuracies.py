"""The accuracies of trainings by environment, their differences, and the time they took."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.comparisons import ExperimentComparison
from experiments.comparisons.group_order import sort_by_groups
from experiments.models import Experiment, Measurement, Run, Segment
from experiments.models.segment import count_most_segments
from experiments.statistics import PointsPair, Sample, compare_points

TIME_TO_ACCURACY = "time_to_accuracy"


def get_target(parameters: Mapping[str, Any]) -> float:
    """Return the accuracy that a workload has to reach, as a share; 0 for none."""
    try:
        return float(parameters.get("target_accuracy") or 0)
    except (TypeError, ValueError):  # a row of the catalogue that was written without its form
        return 0.0


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of n runs; the SD needs two runs, the mean one."""

    n: int
    mean: float | None
    sd: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        if not values:
            return cls(0, None, None)
        mean = statistics.fmean(values)
        if len(values) == 1:
            return cls(1, mean, None)
        # By floats: `statistics.stdev` adds fractions, which takes 1 ms for 400 values.
        squares = math.fsum((value - mean) * (value - mean) for value in values)
        return cls(len(values), mean, math.sqrt(squares / (len(values) - 1)))


@dataclass(frozen=True)
class Reached:
    """The accuracy that one environment's trainings reached, and their times."""

    environment: str
    accuracy: Spread
    """In percentage points."""
    seconds: Spread
    """Wall-clock time from the beginning to the end of a run."""
    to_target: Spread
    """Seconds of training until the target; n is how many runs reached it."""
    pair: PointsPair | None
    """The difference to the baseline; None for the baseline itself."""


@dataclass(frozen=True)
class Accuracies:
    """One kind of accuracy of one workload at one scale, by environment."""

    configuration: Mapping[str, str]
    metric: str
    reached: list[Reached]
    target: float
    problem: str = ""

    @property
    def title(self) -> str:
        return " · ".join((*self.configuration.values(), self.metric.replace("_", " ")))


@dataclass
class _Arm:
    samples: list[Sample] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def has_accuracies(comparison: ExperimentComparison) -> bool:
    """Return whether any run that counts measured an accuracy."""
    if not any(True for _ in comparison.stage.judgements):
        return False
    return any(
        name.endswith("accuracy") and name != TIME_TO_ACCURACY for name in comparison.measured
    )


def tabulate_accuracies(comparison: ExperimentComparison) -> list[Accuracies]:
    """Return a table for each workload, scale and accuracy that runs have measured; two queries.

    Only runs that an interim analysis has judged count; before the first one there are none.
    """
    experiment, environments = comparison.experiment, comparison.environments
    judged = list(comparison.stage.judgements)
    if not judged:
        return []
    repeats = judged[-1].repeats or experiment.all_repeats
    rows = (
        Measurement.objects.filter(
            run__experiment=experiment,
            run__state=Run.State.SUCCEEDED,
            run__repeat__lte=repeats,
            metric__endswith="accuracy",
        )
        .order_by("metric", "run__job__block")
        .values_list(
            "run__workload__name",
            "run__scale",
            "metric",
            "unit",
            "run__environment__name",
            "run__uid",
            "run__job__block",
            "value",
            "run__began_at",
            "run__ended_at",
        )
    )
    wall_times = _add_up_wall_times(experiment)
    arms_by_table: dict[tuple[str, str, str, str], dict[str, _Arm]] = {}
    times: dict[tuple[str, str, str], list[float]] = {}
    for workload, scale, metric, unit, name, uid, block, value, began, ended in rows:
        if metric == TIME_TO_ACCURACY:
            times.setdefault((workload, scale, name), []).append(value)
            continue
        arms = arms_by_table.setdefault((workload, scale, metric, unit), {})
        arm = arms.setdefault(name, _Arm())
        arm.samples.append(Sample(run=uid, block=str(block + 1), environment=name, value=value))
        if uid in wall_times:
            arm.seconds.append(wall_times[uid])
        elif began and ended:
            arm.seconds.append((ended - began).total_seconds())
    if not arms_by_table:
        return []
    targets = {
        name: get_target(parameters)
        for name, parameters in experiment.workloads.values_list("name", "parameters")
    }
    return [
        _table(experiment, environments, *key, arms, times, targets.get(key[0], 0.0))
        for key, arms in sort_by_groups(comparison, arms_by_table)
    ]


def _add_up_wall_times(experiment: Experiment) -> dict[str, float]:
    """Return the seconds of all jobs of runs that took several, by run, without their waiting.

    What a job did after its last checkpoint is part of them. No query where no run takes several.
    """
    workloads = (experiment.plan or {}).get("workloads", {}).values()
    if not any(count_most_segments(workload) > 1 for workload in workloads):
        return {}
    seconds: dict[str, float] = {}
    rows = Segment.objects.filter(run__experiment=experiment)
    for uid, began, ended in rows.values_list("run__uid", "began_at", "ended_at"):
        if began and ended:
            seconds[uid] = seconds.get(uid, 0.0) + (ended - began).total_seconds()
    return seconds


def _table(
    experiment: Experiment,
    environments: Sequence[str],
    workload: str,
    scale: str,
    metric: str,
    unit: str,
    arms: Mapping[str, _Arm],
    times: Mapping[tuple[str, str, str], list[float]],
    target: float,
) -> Accuracies:
    try:
        pairs = compare_points(
            [sample for arm in arms.values() for sample in arm.samples],
            baseline=environments[0],
            environments=list(environments),
            paired=experiment.is_paired,
            unit=unit,
        )
        problem = ""
    except ValueError as error:
        pairs, problem = [], str(error)
    against = {pair.environment: pair for pair in pairs}
    scale_to_points = 100 if unit == "1" else 1
    reached = [
        Reached(
            environment=name,
            accuracy=Spread.of([scale_to_points * sample.value for sample in arms[name].samples]),
            seconds=Spread.of(arms[name].seconds),
            to_target=Spread.of(times.get((workload, scale, name), [])),
            pair=against.get(name),
        )
        for name in environments
        if name in arms
    ]
    configuration = {"workload": workload, "scale": scale}
    return Accuracies(configuration, metric, reached, target, problem)
