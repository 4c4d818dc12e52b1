"""How much the steps of a run vary: compared like any other number of a run, one a run.

The spread of a run is the standard deviation of its own steps after the burn-in. What it is
compared by is the spread of *that number* from run to run. To pool steps and compare two variances
by F takes every step for a witness of its own, and finds differences where runs merely differ.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from experiments.statistics import numbers
from experiments.statistics.arms import Arms, check
from experiments.statistics.values import Interval, Sample

COUNTS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")


@dataclass(frozen=True)
class RunSpread:
    """One run: the mean and the standard deviation of its steps, in seconds.

    `tail` is the 99th percentile over the median; None where there are too few steps.
    """

    run: str
    block: str
    environment: str
    mean: float
    sd: float
    tail: float | None = None
    node: str = ""


@dataclass(frozen=True)
class Ratio:
    """Of geometric means over runs, with its 95 % interval; an estimate without a verdict."""

    value: float
    ci95: Interval | None
    flaw: str = ""
    """Why there is no interval: "n = 1" or "identical values"."""

    @property
    def words(self) -> str:
        return numbers.factor(self.value, self.ci95)


def ratio(
    baseline: Sequence[Sample], environment: Sequence[Sample], *, paired: bool
) -> Ratio | None:
    """Environment over baseline, by Student's t on logs as in `compare`; None without a pair.

    ValueError names the run whose value is not positive and finite.
    """
    check([*baseline, *environment])
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
        """The standard deviation of the steps as a share of their mean."""
        return self.sd / self.mean


def steadiness(
    runs: Sequence[RunSpread], *, environments: Sequence[str], paired: bool
) -> list[Steady]:
    """Each environment that has runs, in the order given; the first one is the baseline.

    ValueError names the run whose steps have no spread at all, for that has no logarithm.
    """
    check([*_means(runs), *_sds(runs)])
    arms = {name: [run for run in runs if run.environment == name] for name in environments}
    baseline = arms[environments[0]]
    return [
        _steady(name, arm, baseline if place else None, paired)
        for place, (name, arm) in enumerate(arms.items())
        if arm
    ]


def _steady(
    name: str, arm: Sequence[RunSpread], baseline: Sequence[RunSpread] | None, paired: bool
) -> Steady:
    tails = [run.tail for run in arm if run.tail]
    found = Steady(
        environment=name,
        runs=len(arm),
        mean=statistics.fmean(run.mean for run in arm),
        sd=statistics.geometric_mean([run.sd for run in arm]),
        tail=statistics.geometric_mean(tails) if tails else None,
    )
    if baseline is None:
        return found
    return replace(
        found,
        mean_ratio=ratio(_means(baseline), _means(arm), paired=paired),
        sd_ratio=ratio(_sds(baseline), _sds(arm), paired=paired),
        tail_ratio=ratio(_tails(baseline), _tails(arm), paired=paired),
    )


@dataclass(frozen=True)
class Packed:
    """What several instances on one node at once do to each of them, in one environment."""

    environment: str
    instances: int
    mean_ratio: Ratio
    sd_ratio: Ratio
    tail_ratio: Ratio | None
    runs_packed: int
    runs_alone: int
    apart: bool
    """Whether no node ran both."""

    @property
    def sentence(self) -> str:
        """Both ratios in plain words, with what they rest on."""
        count = COUNTS[self.instances] if self.instances < len(COUNTS) else f"{self.instances:,}"
        means, sds = self.mean_ratio, self.sd_ratio
        rests_on = f"{self.runs_packed} runs packed, {self.runs_alone} alone"
        if means.flaw or sds.flaw:
            why = "no interval: a single run cannot show how much runs vary"
            if "n = 1" not in (means.flaw, sds.flaw):
                why = "no interval: runs with identical values"
            rests_on += f"; {why}"
        said = (
            f"{count} at once on one node: steps are {means.words} times as long and vary "
            f"{sds.words} times as much (SD within runs, 95 % CI; {rests_on})."
        )
        return said + " No node ran both, so that this may be the nodes." * self.apart


def packed(
    alone: Sequence[RunSpread],
    together: Sequence[RunSpread],
    *,
    environments: Sequence[str],
    instances: int,
) -> list[Packed]:
    """Each environment that ran both ways, in the order given.

    Runs alone and runs together were different jobs: they are compared as independent ones.
    """
    found = []
    for name in environments:
        one, many = ([run for run in runs if run.environment == name] for runs in (alone, together))
        means = ratio(_means(one), _means(many), paired=False)
        sds = ratio(_sds(one), _sds(many), paired=False)
        if means is None or sds is None:
            continue
        nodes = [{run.node for run in runs if run.node} for runs in (one, many)]
        found.append(
            Packed(
                environment=name,
                instances=instances,
                mean_ratio=means,
                sd_ratio=sds,
                tail_ratio=ratio(_tails(one), _tails(many), paired=False),
                runs_packed=len(many),
                runs_alone=len(one),
                apart=all(nodes) and not nodes[0] & nodes[1],
            )
        )
    return found


def _means(runs: Sequence[RunSpread]) -> list[Sample]:
    return [Sample(run.run, run.block, run.environment, run.mean) for run in runs]


def _sds(runs: Sequence[RunSpread]) -> list[Sample]:
    return [Sample(run.run, run.block, run.environment, run.sd) for run in runs]


def _tails(runs: Sequence[RunSpread]) -> list[Sample]:
    return [Sample(run.run, run.block, run.environment, run.tail) for run in runs if run.tail]
