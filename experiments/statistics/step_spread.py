"""Spread of the steps within runs: one number a run, compared like any other number of a run.

The spread of a run is the standard deviation of its own steps after the warm-up. The yardstick is
how much *that number* varies from run to run. To pool steps and compare two variances by F would
take every step as independent, and find differences where runs merely differ.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from experiments.statistics import numbers
from experiments.statistics.arms import Arms, check
from experiments.statistics.values import Interval, Sample

TOO_WIDE = 100
"""Ratio of an interval's ends from which it says neither whether steps vary more, nor how much."""
COUNTS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")


@dataclass(frozen=True)
class RunSpread:
    """One run: the mean and the standard deviation of its steps, in seconds.

    `tail` is the 99th percentile over the median; None where there are too few steps. `time` is the
    time of the whole run, in seconds; None where it was not measured.
    """

    run: str
    block: str
    environment: str
    mean: float
    sd: float
    tail: float | None = None
    node: str = ""
    time: float | None = None


@dataclass(frozen=True)
class Ratio:
    """A ratio of geometric means over runs, with its 95 % interval; without a verdict."""

    value: float
    ci95: Interval | None
    flaw: str = ""
    """Why there is no interval: "n = 1" or "identical values"."""

    @property
    def text(self) -> str:
        return numbers.factor(self.value, self.ci95)

    @property
    def is_determined(self) -> bool:
        """Return whether the interval says anything: not if its ends differ a hundredfold."""
        return self.ci95 is None or self.ci95[1] < TOO_WIDE * self.ci95[0]


def estimate_ratio(
    baseline: Sequence[Sample], environment: Sequence[Sample], *, paired: bool
) -> Ratio | None:
    """Return environment over baseline, by Student's t on logs as in `compare`; None without pairs.

    All values must be above zero.
    """
    estimate = Arms.of(baseline, environment, paired=paired).estimate()
    if estimate is None:
        return None
    interval = None if estimate.flaw else estimate.interval(0.95)
    return Ratio(estimate.ratio, interval, estimate.flaw)


@dataclass(frozen=True)
class Steady:
    """One environment of one workload at one scale; the ratios are to the baseline's."""

    environment: str
    runs: int
    mean: float
    """Seconds a step: the mean over runs."""
    sd: float
    """Seconds: the geometric mean of the runs' own standard deviations."""
    tail: float | None
    """The 99th percentile over the median, as a geometric mean over the runs that have one."""
    mean_ratio: Ratio | None = None
    sd_ratio: Ratio | None = None
    tail_ratio: Ratio | None = None

    @property
    def relative(self) -> float:
        """Return the standard deviation of the steps as a share of their mean."""
        return self.sd / self.mean


def compare_spreads(
    runs: Sequence[RunSpread], *, environments: Sequence[str], paired: bool
) -> list[Steady]:
    """Return the spread of each environment that has runs, in their order, the baseline first.

    ValueError names the run whose steps have no spread at all.
    """
    arms = {name: _Arm.of(runs, name) for name in environments}
    baseline = arms[environments[0]]
    return [
        _summarise(name, arm, baseline if place else None, paired)
        for place, (name, arm) in enumerate(arms.items())
        if arm.sds
    ]


@dataclass(frozen=True)
class _Arm:
    """The runs of one environment, as the samples of three metrics."""

    means: list[Sample]
    sds: list[Sample]
    tails: list[Sample]
    times: list[Sample]
    nodes: set[str]

    @classmethod
    def of(cls, runs: Sequence[RunSpread], name: str) -> _Arm:
        """Return the runs of one environment. ValueError names a run whose steps have no spread."""
        arm = [run for run in runs if run.environment == name]
        means = [Sample(run.run, run.block, name, run.mean) for run in arm]
        sds = [Sample(run.run, run.block, name, run.sd) for run in arm]
        tails = [Sample(run.run, run.block, name, run.tail) for run in arm if run.tail]
        times = [Sample(run.run, run.block, name, run.time) for run in arm if run.time]
        check([*means, *sds, *tails, *times])
        return cls(means, sds, tails, times, {run.node for run in arm if run.node})


def _summarise(name: str, arm: _Arm, baseline: _Arm | None, paired: bool) -> Steady:
    tails = [sample.value for sample in arm.tails]
    summary = Steady(
        environment=name,
        runs=len(arm.sds),
        mean=statistics.fmean(sample.value for sample in arm.means),
        sd=statistics.geometric_mean([sample.value for sample in arm.sds]),
        tail=statistics.geometric_mean(tails) if tails else None,
    )
    if baseline is None:
        return summary
    return replace(
        summary,
        mean_ratio=estimate_ratio(baseline.means, arm.means, paired=paired),
        sd_ratio=estimate_ratio(baseline.sds, arm.sds, paired=paired),
        tail_ratio=estimate_ratio(baseline.tails, arm.tails, paired=paired),
    )


@dataclass(frozen=True)
class Packed:
    """Several instances at once on one node, compared with one alone, in one environment."""

    environment: str
    instances: int
    mean_ratio: Ratio
    sd_ratio: Ratio
    tail_ratio: Ratio | None
    runs_packed: int
    runs_alone: int
    apart: bool
    """True if no node ran both."""
    time_ratio: Ratio | None = None
    """Of the whole runs; None where their time was not measured."""

    @property
    def sentence(self) -> str:
        """Return both ratios in a sentence, with the numbers of runs behind them."""
        count = COUNTS[self.instances] if self.instances < len(COUNTS) else f"{self.instances:,}"
        means, sds = self.mean_ratio, self.sd_ratio
        rests_on = f"{numbers.count(self.runs_packed, 'run')} packed, {self.runs_alone} alone"
        if means.flaw or sds.flaw:
            why = "no interval: a single run cannot show how much runs vary"
            if "n = 1" not in (means.flaw, sds.flaw):
                why = "no interval: runs with identical values"
            rests_on += f"; {why}"
        sentence = (
            f"{count} at once on one node: steps are {means.text} times as long "
            f"({'95 % CI; ' * (means.ci95 is not None)}{rests_on}). They vary {sds.text} times "
            f"as much ({'95 % CI; ' * (sds.ci95 is not None)}SD within runs)."
        )
        if self.time_ratio is not None:
            has_interval = self.time_ratio.ci95 is not None
            sentence += (
                f" Whole runs take {self.time_ratio.text} times as long"
                f"{' (95 % CI)' * has_interval}."
            )
        return sentence + " No node ran both, so that this may be the nodes." * self.apart


def compare_packed(
    alone: Sequence[RunSpread],
    together: Sequence[RunSpread],
    *,
    environments: Sequence[str],
    instances: int,
) -> list[Packed]:
    """Return a comparison of each environment that ran both alone and packed, in their order.

    Runs alone and runs together were different jobs: they are compared as independent runs.
    """
    comparisons = []
    for environment in environments:
        alone_arm, together_arm = (_Arm.of(runs, environment) for runs in (alone, together))
        means = estimate_ratio(alone_arm.means, together_arm.means, paired=False)
        sds = estimate_ratio(alone_arm.sds, together_arm.sds, paired=False)
        if means is None or sds is None:
            continue
        comparisons.append(
            Packed(
                environment=environment,
                instances=instances,
                mean_ratio=means,
                sd_ratio=sds,
                tail_ratio=estimate_ratio(alone_arm.tails, together_arm.tails, paired=False),
                runs_packed=len(together_arm.sds),
                runs_alone=len(alone_arm.sds),
                apart=bool(alone_arm.nodes and together_arm.nodes)
                and not alone_arm.nodes & together_arm.nodes,
                time_ratio=estimate_ratio(alone_arm.times, together_arm.times, paired=False),
            )
        )
    return comparisons
