"""Whether environments trained alike: a run that trains wrongly is not a fast run.

Runs of the same seed are compared to the bit. Where they differ, what matters is whether they end
farther apart than a change of the seed alone would make them; so the spread between the seeds of
the baseline is the yardstick.

With b and e the last losses of n seeds that both environments have, and S the standard deviation of
the last losses between the m seeds of the baseline (all on logs, if every loss is above zero):

- apart = RMS(e - b) / (sqrt(2) S): 1 if as far apart as two seeds of the baseline are;
- beyond the noise, if apart² > F(0.99; n, m - 1), for then some runs lie too far off; or if the
  mean of e - b is more than S and its 99 % interval (Student's t) does not hold 0, for then all
  are shifted.

An environment whose runs come out as those of the baseline with other seeds do is within it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from experiments.statistics.values import Better

LEVEL = 0.01
"""Of each of the two ways to be beyond the noise."""
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
    """The share of the baseline's fall that the environment's lacks."""

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
    for name, arm in arms.items():
        if arm:
            one = Alike(environment=name, outcome=Outcome.ALONE, **known)
            found.append(_against(one, own, arm, means))
    return found


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
    one: Alike,
    own: dict[str, list[Ending]],
    arm: dict[str, list[Ending]],
    means: dict[str, float],
) -> Alike:
    pairs = [(run, own[draw][0]) for draw, runs in arm.items() if draw in own for run in runs]
    if not pairs:
        return one
    differences = [
        _mean(runs, one.is_relative) - means[draw] for draw, runs in arm.items() if draw in own
    ]
    rms = math.sqrt(statistics.fmean(d * d for d in differences))
    equal = sum(run.equals(other) for run, other in pairs)
    shift = statistics.fmean(differences)
    one = replace(
        one,
        runs=len(pairs),
        equal=equal,
        seeds=len(differences),
        rms=rms,
        largest=max(_apart(run, other, one.is_relative) for run, other in pairs),
        shift=shift,
        apart=rms / (math.sqrt(2) * one.seed_sd) if one.seed_sd else None,
        lacks=_lacks(own, arm, one.better) if one.what == "loss" else None,
    )
    return replace(one, outcome=_outcome(one, differences, own, arm))


def _outcome(
    one: Alike,
    differences: Sequence[float],
    own: dict[str, list[Ending]],
    arm: dict[str, list[Ending]],
) -> Outcome:
    if one.equal == one.runs:
        return Outcome.EQUAL
    if one.seed_sd and one.apart is not None:
        is_beyond = _scattered(one.apart, len(differences), one.baseline_seeds) or _shifted(
            differences, one.seed_sd
        )
        return Outcome.BEYOND if is_beyond else Outcome.WITHIN
    worst = max(run.last for runs in own.values() for run in runs)
    last = statistics.fmean(run.last for draw in own if draw in arm for run in arm[draw])
    if one.lacks is not None and one.lacks > FAR and last > worst:
        return Outcome.WORSE
    return Outcome.UNKNOWN


def _scattered(apart: float, seeds: int, baseline_seeds: int) -> bool:
    """Whether the pairs lie farther apart than two seeds of the baseline would (F)."""
    from scipy.special import fdtri  # lazily: half a second that few pages need

    return bool(apart**2 > fdtri(seeds, baseline_seeds - 1, 1 - LEVEL))


def _shifted(differences: Sequence[float], seed_sd: float) -> bool:
    """Whether all ended on one side, by more than the standard deviation between seeds (t)."""
    from scipy.special import stdtr

    count, mean = len(differences), statistics.fmean(differences)
    if count < 2 or abs(mean) <= seed_sd:
        return False
    se = statistics.stdev(differences) / math.sqrt(count)
    return se == 0 or bool(2 * stdtr(count - 1, -abs(mean) / se) < LEVEL)


def _lacks(
    own: dict[str, list[Ending]], arm: dict[str, list[Ending]], better: Better
) -> float | None:
    """The share of the baseline's fall from its first loss to its last that is missing."""
    shared = [draw for draw in own if draw in arm]
    firsts = [run.first for draw in shared for run in own[draw] if run.first is not None]
    if not firsts or better != "lower":
        return None
    ours = statistics.fmean(run.last for draw in shared for run in own[draw])
    theirs = statistics.fmean(run.last for draw in shared for run in arm[draw])
    fall = statistics.fmean(firsts) - ours
    return (theirs - ours) / fall if fall > 0 else None


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
