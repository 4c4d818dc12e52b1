"""How the runs of each group of a comparison start, and what their values are once they settle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

from django.db import models

from experiments.comparisons.exclusions import counted
from experiments.models import Experiment, Series, Workload
from experiments.statistics import Pair, Sample, numbers
from experiments.statistics.change_points import BLOCK, TREND_LEVEL, Shape
from runners.workloads import KNOWN_WORKLOADS, Metric

Place = tuple[int, str]
"""A group in the database: the workload's primary key and the scale."""


@dataclass(frozen=True)
class Start:
    """How one run started; times per step in seconds."""

    environment: str
    shape: Shape
    block_steps: int
    warm_up: int | None
    """Steps before its own cut; None where no steady state was found."""
    slows: bool
    speeds_up: bool
    measured: float
    """Its mean as it was reported: after the fixed burn-in."""
    settled: float | None
    """Its mean after its own cut."""

    @property
    def columns(self) -> dict[str, Any]:
        """What the file of runs says of it."""
        return {
            "shape": str(self.shape),
            "warm_up_steps": self.warm_up,
            "trend": "slower" if self.slows else "faster" if self.speeds_up else "",
            "mean_after_warm_up (s)": self.settled,
        }


@dataclass(frozen=True)
class InEnvironment:
    """How the runs of one environment start."""

    environment: str
    shapes: Counter[Shape]
    warm_ups: list[int]
    """Steps, in order; one for each run that settles."""
    slows: int
    speeds_up: int
    fixed_bias: float | None
    """By how much the fixed burn-in leaves a mean above that after the warm-up, as a fraction."""
    ratio_bias: float | None
    """The same of the ratio to the baseline, in times; None of the baseline itself."""

    @property
    def counts(self) -> list[tuple[str, int]]:
        """Shapes that occurred, as words, in a fixed order."""
        return [(str(shape), self.shapes[shape]) for shape in Shape if self.shapes[shape]]

    @property
    def warm_up(self) -> str:
        """Steps in words: the median, and the smallest and largest where they differ."""
        if not self.warm_ups:
            return numbers.MISSING
        middle, (low, *_, high) = median(self.warm_ups), (*self.warm_ups, self.warm_ups[-1])
        between = f" ({low:,} to {high:,})" if low < high else ""
        return f"{middle:,.0f} step{'s' * (high != 1)}{between}"

    @property
    def trends(self) -> str:
        found = ((self.slows, "slower"), (self.speeds_up, "faster"))
        return ", ".join(f"{count} {words}" for count, words in found if count) or "none"

    @property
    def left_by_fixed(self) -> str:
        return numbers.cost(self.fixed_bias, decimals=2)

    @property
    def left_in_ratio(self) -> str:
        return numbers.cost(self.ratio_bias, decimals=2)


@dataclass(frozen=True)
class WarmUps:
    """How the runs of one group start, by the uid of each; and whether that decides."""

    environments: Sequence[str]
    """The baseline first."""
    starts: Mapping[str, Start]
    decides: bool
    """Whether the warm-up that was found cuts, rather than the fixed burn-in."""
    burn_in: int
    is_time: bool
    """Whether the metric is a time: a rate goes the other way."""
    left: Mapping[str, float]
    """With a common cut, the mean of all steps after it, by the uid of each run."""
    common_cut: int | None = None
    """In steps; None where the shapes do not agree, or nothing decides."""
    is_judged_early: bool = False
    """Whether some runs are judged before others have come, which must not move their cut."""

    def value(self, run: str, reported: float) -> float:
        """What the value of a run (its uid) is, after the cut that decides.

        A run that never settles has no cut of its own. It counts all the same, with what is left
        after the cut of the others; where they have none in common, with what it reported.
        """
        start = self.starts.get(run)
        if not self.decides or start is None:
            return reported
        mean = self.left.get(run) if self.common_cut is not None else start.settled
        ratio = 1.0 if mean is None else mean / start.measured
        return reported * ratio if self.is_time else reported / ratio

    def applied(self, samples: Iterable[Sample]) -> list[Sample]:
        """The samples with the values that decide; those that never settle say so."""
        return [
            replace(
                sample,
                value=self.value(sample.run, sample.value),
                settles=not self._never(sample.run),
            )
            for sample in samples
        ]

    @property
    def in_environments(self) -> list[InEnvironment]:
        arms = [
            [start for start in self.starts.values() if start.environment == name]
            for name in self.environments
        ]
        biases = [
            [start.measured / start.settled - 1 for start in arm if start.settled] for arm in arms
        ]
        means = [fmean(arm) if arm else None for arm in biases]
        return [
            InEnvironment(
                environment=name,
                shapes=Counter(start.shape for start in arm),
                warm_ups=sorted(start.warm_up for start in arm if start.warm_up is not None),
                slows=sum(start.slows for start in arm),
                speeds_up=sum(start.speeds_up for start in arm),
                fixed_bias=mean,
                ratio_bias=(1 + mean) / (1 + means[0]) - 1
                if place and mean is not None and means[0] is not None
                else None,
            )
            for place, (name, arm, mean) in enumerate(
                zip(self.environments, arms, means, strict=True)
            )
        ]

    def columns(self, pair: Pair) -> dict[str, Any]:
        """What the file of comparisons says of the start-ups behind a pair."""
        columns: dict[str, Any] = {
            "warm_up": "found" if self.decides else "fixed",
            "fixed_burn_in_steps": self.burn_in,
            "common_cut_steps": self.common_cut,
        }
        sides = {pair.baseline: "baseline", pair.environment: "environment"}
        for each in self.in_environments:
            if side := sides.get(each.environment):
                counts = (f"{count} {shape}" for shape, count in each.counts)
                columns[f"{side}_shapes"] = "; ".join(counts)
                columns[f"{side}_fixed_bias"] = each.fixed_bias
        return columns

    @property
    def rule(self) -> str:
        """What decides, as a sentence."""
        fixed = (
            f"the mean after the fixed burn-in of {self.burn_in:,} step{'s' * (self.burn_in != 1)}"
            if self.burn_in
            else "the mean of all steps"
        )
        if not self.decides:
            return f"What is compared is {fixed}."
        if self.common_cut is not None:
            return (
                f"What is compared is the mean of all steps after the first {self.common_cut:,}: "
                "the largest warm-up of these runs."
            )
        if any(start.warm_up is not None for start in self.starts.values()):
            why = (
                "a common cut would let later runs move the verdict of an earlier look"
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
        """How many runs never settle."""
        return sum(start.shape is Shape.NONE for start in self.starts.values())

    def _never(self, run: str) -> bool:
        return run in self.starts and self.starts[run].shape is Shape.NONE


def common_cut(starts: Iterable[Start]) -> int | None:
    """The largest warm-up where the shapes agree, in steps; None where they do not.

    They agree where every run that settles is flat or a warm-up: then steps are level after the
    largest cut in all of them. In a slowdown a later cut would take fast steps away.
    """
    settled = [start for start in starts if start.warm_up is not None]
    if not settled or any(start.shape is Shape.SLOWDOWN for start in settled):
        return None
    return max(start.warm_up or 0 for start in settled)


def warm_ups(
    experiment: Experiment,
    workloads: Sequence[Workload],
    metrics: Mapping[int, Metric],
    environments: Sequence[str],
    also: Collection[int] = (),
) -> dict[Place, WarmUps]:
    """Return each group whose metric rests on times per step; one query, or two.

    Of the runs that succeeded, and `also` of these.
    """
    rests_on = {
        row.pk: KNOWN_WORKLOADS[row.kind].find_base_series(metrics[row.pk].name)
        for row in workloads
    }
    rows = Series.objects.filter(
        counted(also),
        run__experiment=experiment,
        metric__in=set(rests_on.values()),
        run__measurements__metric=models.F("metric"),
    ).exclude(shape="")
    found: dict[Place, dict[str, Start]] = {}
    burn_ins: dict[Place, int] = {}
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
        own_burn_in,
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
        found.setdefault((workload, scale), {})[uid] = start
        if own_burn_in is not None:
            burn_ins[workload, scale] = own_burn_in
    decides = experiment.warm_up == Experiment.WarmUp.FOUND
    is_judged_early = experiment.looks > 1
    shared = decides and not is_judged_early
    cuts = {
        place: common_cut(starts.values()) if shared else None for place, starts in found.items()
    }
    left = _left(rows, found, cuts)
    by_pk = {row.pk: row for row in workloads}
    return {
        place: WarmUps(
            environments=environments,
            starts=starts,
            decides=decides,
            burn_in=burn_ins.get(place, _burn_in(experiment, by_pk[place[0]])),
            is_time=metrics[place[0]].unit == "s",
            left={uid: left[uid] for uid in starts if uid in left},
            common_cut=cuts[place],
            is_judged_early=is_judged_early,
        )
        for place, starts in found.items()
    }


def _left(
    rows: models.QuerySet[Series],
    found: Mapping[Place, Mapping[str, Start]],
    cuts: Mapping[Place, int | None],
) -> dict[str, float]:
    """Return what is left of each run after its group's common cut: one number each is read."""
    blocks = {
        uid: cut // start.block_steps
        for place, cut in cuts.items()
        if cut is not None
        for uid, start in found[place].items()
    }
    columns = {block: f"tail_means__{block}" for block in sorted(set(blocks.values()))}
    if not columns:
        return {}
    left = {}
    for uid, *means in rows.values_list("run__uid", *columns.values()):
        mean = dict(zip(columns, means, strict=True)).get(blocks.get(uid, -1))
        if mean is not None:
            left[uid] = mean
    return left


def _burn_in(experiment: Experiment, workload: Workload) -> int:
    """Return the steps that the workload's own means leave out, as the plan froze them."""
    declared = {each.name: each.default for each in KNOWN_WORKLOADS[workload.kind].parameters}
    frozen = (experiment.plan or {}).get("workloads", {}).get(str(workload.pk), {})
    given = declared | workload.parameters | frozen.get("parameters", {})
    return int(given.get("burn_in") or 0)
