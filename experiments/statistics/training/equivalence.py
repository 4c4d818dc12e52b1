"""Whether environments trained alike: a run that trains wrongly is not a fast run.

Runs of the same seed are compared to the bit. Where they differ, what matters is whether they end
farther apart than a change of the seed alone would make them; so the spread between the seeds of
the baseline is the yardstick.

With b and e the last losses of n seeds that both environments have, and S the standard deviation of
the last losses between the m seeds of the baseline (all on logs, if every loss is above zero):

- apart = RMS(e - b) / (sqrt(2) S): 1 if as far apart as two seeds of the baseline are;
- p of "no farther apart", by F(n, m - 1) of apart²: some runs may lie too far off; and p of "not
  shifted", by Student's t of e - b, 1 unless their mean is more than S. Twice the smaller one is
  the p of the environment. Beyond the noise, if Holm's correction over the whole study leaves it
  below 2 %.

Where nobody knows the seeds nothing pairs the runs. Then d = e - mean(b), and the sum of d² less
(sum of d)² / (n + m), over n S², is F(n, m - 1); the shift is Student's t of both.

What the digits printed may hide, and less than 0.1 % of a loss or 0.1 points of an accuracy, is no
difference. An environment whose runs come out as those of the baseline with other seeds do is
within the noise.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from experiments.statistics.values import Better

LEVEL = 0.02
"""Of a study: that any environment which trains alike is called beyond the noise."""
FLOOR = 0.001
"""Of a loss (relative), or of an accuracy (a share): smaller differences are none."""
MOST_DECIMALS = 6
"""Of a printed number; one with more is not rounded."""
LEARNT = 0.1
"""A loss that falls by less of its beginning has learnt nothing that could be missed."""
FEWEST_SEEDS = 3
"""Below this nobody knows the noise between seeds."""
FAR = 0.1
"""Of the baseline's fall: a loss that lacks more of it is worse by far, whatever the noise."""


class Outcome(StrEnum):
    EQUAL = "equal to the bit"
    WITHIN = "within the noise between seeds"
    BEYOND = "beyond the noise between seeds"
    WORSE = "worse by far"
    UNKNOWN = "noise between seeds unknown"
    ALONE = "nothing to compare with"


@dataclass(frozen=True)
class Ending:
    """How the training of one run ended."""

    run: str
    environment: str
    draw: str
    """What its random numbers came from: its seed, or its repeat where nobody knows the seed."""
    last: float
    first: float | None = None
    digest: str = ""
    """Of all its losses; empty where they were not looked at."""

    def equals(self, other: Ending) -> bool:
        """To the bit: all losses where they are known, else the last."""
        if self.digest and other.digest:
            return self.digest == other.digest
        return self.last == other.last


@dataclass(frozen=True, kw_only=True)
class Alike:
    """How one environment trained, against the baseline; of the baseline, against itself.

    On logs (`is_relative`) differences and spreads are relative, else in the unit of the value.
    """

    environment: str
    baseline: str
    what: str
    """ "loss" or "accuracy"."""
    better: Better
    outcome: Outcome
    runs: int = 0
    """That have a counterpart in the baseline."""
    equal: int = 0
    seeds: int = 0
    """That both have; of the baseline, all that it has."""
    seeds_known: bool = True
    is_relative: bool = False
    rms: float | None = None
    largest: float | None = None
    shift: float | None = None
    """The mean difference: environment - baseline."""
    baseline_seeds: int = 0
    seed_sd: float | None = None
    """Between the seeds of the baseline."""
    apart: float | None = None
    lacks: float | None = None
    """The share of the baseline's fall that this one lacks; None if that learnt nothing."""
    p: float | None = None
    """Of "trained alike"; None where the noise is unknown or nothing differs."""
    p_holm: float | None = None
    """Adjusted for all environments and configurations of the study."""

    @property
    def is_amiss(self) -> bool:
        """Whether it stamps the verdict."""
        return self.outcome in (Outcome.BEYOND, Outcome.WORSE)


def alike(
    endings: Sequence[Ending],
    *,
    baseline: str,
    environments: Sequence[str],
    what: str = "loss",
    better: Better = "lower",
    seeds_known: bool = True,
) -> list[Alike]:
    """Compare each environment that has runs with the baseline, whose own is the first.

    `endings` are in the order of the plan: the first run of a seed is what others of it are held
    against. Losses are compared relatively if all are above zero, accuracies never.
    """
    is_relative = what == "loss" and all(one.last > 0 for one in endings)
    arms = {
        name: _by_draw([one for one in endings if one.environment == name])
        for name in (baseline, *(name for name in environments if name != baseline))
    }
    own = arms.pop(baseline)
    if not own:
        return []
    means = {draw: _mean(runs, is_relative) for draw, runs in own.items()}
    seed_sd = statistics.stdev(means.values()) if len(means) >= FEWEST_SEEDS else 0.0
    known: dict[str, Any] = {
        "baseline": baseline,
        "what": what,
        "better": better,
        "seeds_known": seeds_known,
        "is_relative": is_relative,
        "baseline_seeds": len(own),
        "seed_sd": seed_sd or None,
    }
    found = [_repeats(Alike(environment=baseline, outcome=Outcome.ALONE, **known), own)]
    least = _least_difference([one.last for one in endings], is_relative)
    for name, arm in arms.items():
        if arm:
            one = Alike(environment=name, outcome=Outcome.ALONE, **known)
            against = _against if seeds_known else _against_unpaired
            found.append(against(one, own, arm, least))
    return decided(found)


def decided(found: Sequence[Alike]) -> list[Alike]:
    """Return them with their outcomes after Holm's correction for their number."""
    ordered = sorted((one.p, i) for i, one in enumerate(found) if one.p is not None)
    adjusted, largest = list(found), 0.0
    for rank, (p, i) in enumerate(ordered):
        largest = max(largest, min(1.0, p * (len(ordered) - rank)))
        outcome = Outcome.BEYOND if largest < LEVEL else Outcome.WITHIN
        adjusted[i] = replace(found[i], p_holm=largest, outcome=outcome)
    return adjusted


def _repeats(one: Alike, own: dict[str, list[Ending]]) -> Alike:
    """Whether the baseline repeats itself: runs of a seed against the first one of it.

    Where nobody knows the seeds they may all be the same: all runs against the first.
    """
    groups = list(own.values())
    if not one.seeds_known:
        groups = [[run for runs in groups for run in runs]]
    again = [(run, runs[0]) for runs in groups for run in runs[1:]]
    equal = sum(run.equals(first) for run, first in again)
    largest = max((_apart(run, first, one.is_relative) for run, first in again), default=None)
    outcome = Outcome.EQUAL if again and equal == len(again) else one.outcome
    return replace(
        one, outcome=outcome, runs=len(again), equal=equal, seeds=len(own), largest=largest
    )


def _against(
    one: Alike, own: dict[str, list[Ending]], arm: dict[str, list[Ending]], least: float
) -> Alike:
    """Run against run of the same seed."""
    shared = [draw for draw in arm if draw in own]
    pairs = [(run, own[draw][0]) for draw in shared for run in arm[draw]]
    if not pairs:
        return one
    differences = [
        _mean(arm[draw], one.is_relative) - _mean(own[draw], one.is_relative) for draw in shared
    ]
    rms = math.sqrt(statistics.fmean(d * d for d in differences))
    one = replace(
        one,
        runs=len(pairs),
        equal=sum(run.equals(other) for run, other in pairs),
        seeds=len(shared),
        rms=rms,
        largest=max(_apart(run, other, one.is_relative) for run, other in pairs),
        shift=statistics.fmean(differences),
        apart=rms / (math.sqrt(2) * one.seed_sd) if one.seed_sd else None,
    )
    if one.seed_sd and one.equal < one.runs:
        left = [_beyond(d, least) for d in differences]
        squares = statistics.fmean(d * d for d in left) / (2 * one.seed_sd**2)
        se = statistics.stdev(differences) / math.sqrt(len(left)) if left[1:] else math.inf
        shift = _p_shifted(_beyond(one.shift or 0.0, least), one.seed_sd, se, len(left) - 1)
        one = replace(one, p=_p(squares, len(left), one.baseline_seeds, shift))
    ours = [run for draw in shared for run in own[draw]]
    return _outcome(one, ours, [run for draw in shared for run in arm[draw]], own)


def _against_unpaired(
    one: Alike, own: dict[str, list[Ending]], arm: dict[str, list[Ending]], least: float
) -> Alike:
    """All runs against all: which repeat a run is says nothing about its seed."""
    ours = [run for runs in own.values() for run in runs]
    theirs = [run for runs in arm.values() for run in runs]
    b, e = ([_scaled(run.last, one.is_relative) for run in runs] for runs in (ours, theirs))
    centre, n, m = statistics.fmean(b), len(e), len(b)
    differences = [value - centre for value in e]
    one = replace(
        one,
        runs=n,
        equal=_equal_to_any(theirs, ours),
        seeds=n,
        rms=math.sqrt(statistics.fmean(d * d for d in differences)),
        largest=max(map(abs, differences)),
        shift=statistics.fmean(differences),
    )
    if sd := one.seed_sd:
        one = replace(one, apart=math.sqrt(_spread_of(differences, m) / n) / sd)
        if one.equal < n:
            squares = _spread_of([_beyond(d, least) for d in differences], m) / n / sd**2
            # If it trains alike, its runs vary as much: both tell how much that is.
            mean = statistics.fmean(e)
            within = (m - 1) * sd**2 + math.fsum((value - mean) ** 2 for value in e)
            se = math.sqrt(within / (n + m - 2) * (1 / n + 1 / m))
            shift = _p_shifted(_beyond(one.shift or 0.0, least), sd, se, n + m - 2)
            one = replace(one, p=_p(squares, n, m, shift))
    return _outcome(one, ours, theirs, own)


def _equal_to_any(runs: Sequence[Ending], others: Sequence[Ending]) -> int:
    """Return how many are the same as some other one, to the bit."""
    digests = {one.digest for one in others if one.digest}
    lasts = {one.last for one in others}
    return sum(
        run.digest in digests if run.digest and digests else run.last in lasts for run in runs
    )


def _spread_of(differences: Sequence[float], baseline_runs: int) -> float:
    """Return their squares, which all share the doubt about the baseline's mean."""
    total = math.fsum(differences)
    return math.fsum(d * d for d in differences) - total**2 / (len(differences) + baseline_runs)


def _least_difference(values: Sequence[float], is_relative: bool) -> float:
    """Return what is no difference: what rounding may hide, and what nobody would mind."""
    for decimals in range(MOST_DECIMALS + 1):
        if all(abs(round(value, decimals) - value) <= 1e-12 * abs(value) for value in values):
            smallest = min(map(abs, values)) if is_relative else 1.0
            return max(FLOOR, 10.0**-decimals / smallest)
    return FLOOR


def _beyond(difference: float, least: float) -> float:
    return math.copysign(max(abs(difference) - least, 0.0), difference)


def _p(squares: float, runs: int, baseline_runs: int, p_shift: float) -> float:
    """Twice the smaller p of the two ways to differ: by F of the squares, and by the shift."""
    from scipy.special import fdtrc  # lazily: half a second that few pages need

    return min(1.0, 2 * min(float(fdtrc(runs, baseline_runs - 1, squares)), p_shift))


def _p_shifted(shift: float, seed_sd: float, se: float, df: float) -> float:
    """By Student's t; 1 where the shift is not larger than the noise, whoever is sure of it."""
    from scipy.special import stdtr

    if abs(shift) <= seed_sd or se == math.inf:
        return 1.0
    return 0.0 if se == 0 else float(2 * stdtr(df, -abs(shift) / se))


def _outcome(
    one: Alike, ours: Sequence[Ending], theirs: Sequence[Ending], own: dict[str, list[Ending]]
) -> Alike:
    """With what is said where no p decides: `decided` has the last word where one does."""
    if one.what == "loss":
        one = replace(one, lacks=_lacks(ours, theirs, one.better))
    if one.equal == one.runs:
        return replace(one, outcome=Outcome.EQUAL, p=None)
    if one.p is not None:
        return replace(one, outcome=Outcome.WITHIN)
    worst = max(run.last for runs in own.values() for run in runs)
    last = statistics.fmean(run.last for run in theirs)
    is_worse = one.lacks is not None and one.lacks > FAR and last > worst
    return replace(one, outcome=Outcome.WORSE if is_worse else Outcome.UNKNOWN)


def _lacks(ours: Sequence[Ending], theirs: Sequence[Ending], better: Better) -> float | None:
    """The share of the baseline's fall from its first loss to its last that is missing.

    None where the baseline itself learnt nothing: its loss fell by less than a tenth, or by less
    than its own runs differ.
    """
    firsts = [run.first for run in ours if run.first is not None]
    if not firsts or better != "lower":
        return None
    lasts = [run.last for run in ours]
    first, last = statistics.fmean(firsts), statistics.fmean(lasts)
    fall = first - last
    if fall <= LEARNT * abs(first) or fall <= max(lasts) - min(lasts):
        return None
    return (statistics.fmean(run.last for run in theirs) - last) / fall


def _by_draw(endings: Sequence[Ending]) -> dict[str, list[Ending]]:
    found: dict[str, list[Ending]] = {}
    for one in endings:
        found.setdefault(one.draw, []).append(one)
    return found


def _mean(runs: Sequence[Ending], is_relative: bool) -> float:
    if len(runs) == 1:  # the usual case, for thousands of runs
        return _scaled(runs[0].last, is_relative)
    return statistics.fmean(_scaled(run.last, is_relative) for run in runs)


def _apart(one: Ending, other: Ending, is_relative: bool) -> float:
    return abs(_scaled(one.last, is_relative) - _scaled(other.last, is_relative))


def _scaled(value: float, is_relative: bool) -> float:
    return math.log(value) if is_relative else value
