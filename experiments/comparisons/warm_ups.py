"""The warm-up of the runs of each group of a comparison, and their values after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

from django.db import models

from experiments.comparisons.exclusions import filter_counted
from experiments.comparisons.kept_rows import read_column
from experiments.models import Experiment, Series, Workload
from experiments.statistics import Pair, Sample, numbers
from experiments.statistics.change_points import BLOCK, TREND_LEVEL, Shape
from runners.workloads import KNOWN_WORKLOADS, Metric

GroupKey = tuple[int, str]
"""A group in the database: the workload's primary key and the scale."""


@dataclass(frozen=True)
class Start:
    """The start-up of one run, as its steps show it; times per step in seconds."""

    environment: str
    shape: Shape
    block_steps: int
    warm_up: int | None
    """Steps before the run's own cut; None where no steady state was detected."""
    slows: bool
    speeds_up: bool
    measured: float
    """The run's mean as it was reported: after the fixed warm-up."""
    settled: float | None
    """The run's mean after its own cut."""

    @property
    def columns(self) -> dict[str, Any]:
        """Return the columns that the exported file of runs has about the start-up."""
        return {
            "shape": str(self.shape),
            "warm_up_steps": self.warm_up,
            "trend": "slower" if self.slows else "faster" if self.speeds_up else "",
            "mean_after_warm_up (s)": self.settled,
        }


@dataclass(frozen=True)
class InEnvironment:
    """The start-ups of all runs of one environment."""

    environment: str
    shapes: Counter[Shape]
    warm_ups: list[int]
    """Steps, in ascending order; one number for each run that settles."""
    slows: int
    speeds_up: int
    fixed_bias: float | None
    """How far the mean after the fixed warm-up lies above that after the warm-up, as a fraction."""
    ratio_bias: float | None
    """The same for the ratio to the baseline; None for the baseline itself."""

    @property
    def counts(self) -> list[tuple[str, int]]:
        """Return each shape that occurred with its number of runs, in a fixed order."""
        return [(str(shape), self.shapes[shape]) for shape in Shape if self.shapes[shape]]

    @property
    def warm_up(self) -> str:
        """Return the steps of the warm-up: the median, and the range where they differ."""
        if not self.warm_ups:
            return numbers.MISSING
        middle, (low, *_, high) = median(self.warm_ups), (*self.warm_ups, self.warm_ups[-1])
        between = f" ({low:,} to {high:,})" if low < high else ""
        return f"{middle:,.0f} step{'s' * (high != 1)}{between}"

    @property
    def trends(self) -> str:
        counts = ((self.slows, "slower"), (self.speeds_up, "faster"))
        return ", ".join(f"{count} {direction}" for count, direction in counts if count) or "none"

    @property
    def left_by_fixed(self) -> str:
        return numbers.cost(self.fixed_bias, decimals=2)

    @property
    def left_in_ratio(self) -> str:
        return numbers.cost(self.ratio_bias, decimals=2)


@dataclass(frozen=True)
class WarmUps:
    """The start-ups of the runs of one group, and whether they decide what is compared."""

    environments: Sequence[str]
    """The baseline first."""
    starts: Mapping[str, Start]
    """The start-up of each run, by the run's uid."""
    decides: bool
    """Whether the detected warm-up is cut off, rather than the fixed warm-up."""
    fixed_warm_up: int
    """In steps."""
    is_time: bool
    """Whether the metric is a time; False for a rate, which is the inverse."""
    means_after_cut: Mapping[str, float]
    """With a common cut, the mean of all steps after it, by the uid of each run."""
    common_cut: int | None = None
    """In steps; None where the shapes do not agree, or the fixed warm-up is cut off."""
    is_judged_early: bool = False
    """Whether interim analyses judge some runs before others exist; those must not move the cut."""

    def value(self, run: str, reported: float) -> float:
        """Return the value of a run (its uid) after the cut that decides.

        A run that never settles has no cut of its own. It counts all the same, with what is left
        after the cut of the others; where they have none in common, with what it reported.
        """
        start = self.starts.get(run)
        if not self.decides or start is None:
            return reported
        mean = self.means_after_cut.get(run) if self.common_cut is not None else start.settled
        ratio = 1.0 if mean is None else mean / start.measured
        return reported * ratio if self.is_time else reported / ratio

    def apply_to(self, samples: Iterable[Sample]) -> list[Sample]:
        """Return the samples with the values that are compared, marked if they never settle."""
        return [
            replace(
                sample,
                value=self.value(sample.run, sample.value),
                settles=not self._never_settles(sample.run),
            )
            for sample in samples
        ]

    @property
    def in_environments(self) -> list[InEnvironment]:
        """Return the start-ups of each environment, the baseline's first."""
        arms = self._read_columns()
        biases = [
            [
                measured / settled - 1
                for measured, settled in zip(arm["measured"], arm["settled"], strict=True)
                if settled
            ]
            for arm in arms
        ]
        means = [fmean(arm) if arm else None for arm in biases]
        return [
            InEnvironment(
                environment=name,
                shapes=Counter(arm["shape"]),
                warm_ups=sorted(steps for steps in arm["warm_up"] if steps is not None),
                slows=sum(arm["slows"]),
                speeds_up=sum(arm["speeds_up"]),
                fixed_bias=mean,
                ratio_bias=(1 + mean) / (1 + means[0]) - 1
                if index and mean is not None and means[0] is not None
                else None,
            )
            for index, (name, arm, mean) in enumerate(
                zip(self.environments, arms, means, strict=True)
            )
        ]

    def _read_columns(self) -> list[dict[str, list[Any]]]:
        """Return fields of each environment’s start-ups by name, without making any of kept."""
        rows = self.starts.values()
        places: dict[str, list[int]] = {name: [] for name in self.environments}
        for place, name in enumerate(read_column(rows, "environment")):
            if name in places:
                places[name].append(place)
        names = ("shape", "warm_up", "slows", "speeds_up", "measured", "settled")
        columns = {name: read_column(rows, name) for name in names}
        return [
            {name: [column[place] for place in own] for name, column in columns.items()}
            for own in places.values()
        ]

    def columns(self, pair: Pair) -> dict[str, Any]:
        """Return the columns that the exported file of comparisons has about a pair's start-ups."""
        columns: dict[str, Any] = {
            "warm_up": "found" if self.decides else "fixed",
            "fixed_burn_in_steps": self.fixed_warm_up,
            "common_cut_steps": self.common_cut,
        }
        sides = {pair.baseline: "baseline", pair.environment: "environment"}
        for environment in self.in_environments:
            if side := sides.get(environment.environment):
                counts = (f"{count} {shape}" for shape, count in environment.counts)
                columns[f"{side}_shapes"] = "; ".join(counts)
                columns[f"{side}_fixed_bias"] = environment.fixed_bias
        return columns

    @property
    def rule(self) -> str:
        """Return the sentence that says which steps of each run are compared."""
        steps = self.fixed_warm_up
        fixed = (
            f"the mean after the fixed warm-up of {steps:,} step{'s' * (steps != 1)}"
            if steps
            else "the mean of all steps"
        )
        if not self.decides:
            return f"What is compared is {fixed}."
        if self.common_cut is not None:
            return (
                f"What is compared is the mean of all steps after the first {self.common_cut:,}: "
                "the largest warm-up of these runs."
            )
        if any(cut is not None for cut in read_column(self.starts.values(), "warm_up")):
            why = (
                "a common cut would let later runs move the verdict of an earlier interim analysis"
                if self.is_judged_early
                else "some runs slow down later, so there is no cut that suits all"
            )
            return (
                f"What is compared is the mean after each run’s own warm-up: {why}. A run that "
                f"never settles counts with {fixed}."
            )
        return f"No run settles: what is compared is {fixed}."

    @property
    def unsettled(self) -> int:
        """Return how many runs never settle."""
        return sum(shape is Shape.NONE for shape in read_column(self.starts.values(), "shape"))

    def _never_settles(self, run: str) -> bool:
        return run in self.starts and self.starts[run].shape is Shape.NONE


def find_common_cut(starts: Iterable[Start]) -> int | None:
    """Return the largest warm-up where the shapes agree, in steps; None where they do not.

    They agree where every run that settles is flat or has a warm-up: then the steps of all runs
    are level after the largest cut. In a slowdown a later cut would remove fast steps.
    """
    settled = [start for start in starts if start.warm_up is not None]
    if not settled or any(start.shape is Shape.SLOWDOWN for start in settled):
        return None
    return max(start.warm_up or 0 for start in settled)


def collect_warm_ups(
    experiment: Experiment,
    workloads: Sequence[Workload],
    metrics: Mapping[int, Metric],
    environments: Sequence[str],
    *,
    with_excluded: bool = False,
) -> dict[GroupKey, WarmUps]:
    """Return the start-ups of each group whose metric rests on times per step; at most two queries.

    The runs are those that succeeded, and those that persons have excluded if asked for.
    """
    rests_on = {
        row.pk: KNOWN_WORKLOADS[row.kind].find_base_series(metrics[row.pk].name)
        for row in workloads
    }
    rows = Series.objects.filter(
        filter_counted(with_excluded=with_excluded),
        run__experiment=experiment,
        metric__in=set(rests_on.values()),
        run__measurements__metric=models.F("metric"),
    ).exclude(shape="")
    starts_by_group: dict[GroupKey, dict[str, Start]] = {}
    fixed_warm_ups: dict[GroupKey, int] = {}
    for (
        workload,
        scale,
        metric,
        uid,
        environment,
        shape,
        block_steps,
        warm_up,
        trend,
        trend_p,
        measured,
        settled,
        reported_warm_up,
    ) in rows.values_list(
        "run__workload_id",
        "run__scale",
        "metric",
        "run__uid",
        "run__environment__name",
        "shape",
        "block_steps",
        "warm_up",
        "trend",
        "trend_p",
        "run__measurements__value",
        "settled_mean",
        "burn_in",
    ):
        if metric != rests_on.get(workload):
            continue
        has_trend = trend_p is not None and trend_p < TREND_LEVEL
        start = Start(
            environment=environment,
            shape=Shape(shape),
            block_steps=block_steps or BLOCK,
            warm_up=warm_up,
            slows=has_trend and (trend or 0) > 0,
            speeds_up=has_trend and (trend or 0) < 0,
            measured=measured,
            settled=settled,
        )
        starts_by_group.setdefault((workload, scale), {})[uid] = start
        if reported_warm_up is not None:
            fixed_warm_ups[workload, scale] = reported_warm_up
    decides = experiment.warm_up == Experiment.WarmUp.FOUND
    is_judged_early = experiment.looks > 1
    shared = decides and not is_judged_early
    cuts = {
        place: find_common_cut(starts.values()) if shared else None
        for place, starts in starts_by_group.items()
    }
    means_after_cut = _means_after_common_cut(rows, starts_by_group, cuts)
    by_pk = {row.pk: row for row in workloads}
    return {
        place: WarmUps(
            environments=environments,
            starts=starts,
            decides=decides,
            fixed_warm_up=fixed_warm_ups.get(
                place, _read_fixed_warm_up(experiment, by_pk[place[0]])
            ),
            is_time=metrics[place[0]].unit == "s",
            means_after_cut={uid: means_after_cut[uid] for uid in starts if uid in means_after_cut},
            common_cut=cuts[place],
            is_judged_early=is_judged_early,
        )
        for place, starts in starts_by_group.items()
    }


def _means_after_common_cut(
    rows: models.QuerySet[Series],
    starts_by_group: Mapping[GroupKey, Mapping[str, Start]],
    cuts: Mapping[GroupKey, int | None],
) -> dict[str, float]:
    """Return the mean of each run (by uid) after its group's common cut; reads one number a run."""
    blocks = {
        uid: cut // start.block_steps
        for place, cut in cuts.items()
        if cut is not None
        for uid, start in starts_by_group[place].items()
    }
    columns = {block: f"tail_means__{block}" for block in sorted(set(blocks.values()))}
    if not columns:
        return {}
    means_after_cut = {}
    for uid, *means in rows.values_list("run__uid", *columns.values()):
        mean = dict(zip(columns, means, strict=True)).get(blocks.get(uid, -1))
        if mean is not None:
            means_after_cut[uid] = mean
    return means_after_cut


def _read_fixed_warm_up(experiment: Experiment, workload: Workload) -> int:
    """Return the steps that the workload's own means leave out, as the plan froze them."""
    declared = {
        parameter.name: parameter.default for parameter in KNOWN_WORKLOADS[workload.kind].parameters
    }
    key = experiment.get_workload_key(workload.pk)
    frozen = (experiment.plan or {}).get("workloads", {}).get(key, {})
    parameters = declared | workload.parameters | frozen.get("parameters", {})
    return int(parameters.get("burn_in") or 0)
