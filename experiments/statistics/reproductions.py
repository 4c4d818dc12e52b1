"""Whether a study that was done again shows the same: the first effect against the new one.

Both studies are independent: no run belongs to both. So the log of the ratio of their ratios has
the squared standard errors of both, and Satterthwaite's degrees of freedom of both. It is tested
against the margin of the first plan, by two one-sided tests (Schuirmann 1987).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from experiments.statistics import numbers
from experiments.statistics.across_configurations import make_estimate
from experiments.statistics.estimates import Estimate
from experiments.statistics.margins import Margin
from experiments.statistics.pooling import has_interval, has_stopped_early, list_biases
from experiments.statistics.values import ALPHA, Interval, Pair, Verdict

DECIDED = (Verdict.EQUIVALENT, Verdict.NOT_SLOWER, Verdict.SLOWER, Verdict.FASTER)
"""Verdicts that say something which another study can contradict."""
WHICH = ("the first study", "the new one")


class Outcome(StrEnum):
    """The verdict of a reproduction."""

    REPRODUCED = "REPRODUCED"
    NOT_REPRODUCED = "NOT REPRODUCED"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True, kw_only=True)
class Reproduced:
    """One environment in one configuration and by one decisive metric, in both studies.

    `ratio` is that of the new ratio to the first one: 1.02 is 2 % more than before.
    """

    outcome: Outcome
    reason: str
    """Why it is so, as a sentence."""
    first: Pair | None
    again: Pair | None
    bounds: Interval | None = None
    """The margin of the first plan, as bounds of `ratio`."""
    ratio: float | None = None
    log_se: float | None = None
    df: float | None = None
    ci90: Interval | None = None
    ci95: Interval | None = None
    p_same_effect: float | None = None
    """The larger p of the two one-sided tests: below 5 % the new effect is the first one within the
    margin."""
    p_difference: float | None = None
    """Two-sided p of "both effects are the same"."""
    p_not_reproduced: float | None = None
    """The p on which NOT REPRODUCED rests: that of a difference where two verdicts contradict each
    other, else of a difference within the margin."""


@dataclass(frozen=True)
class Overall:
    """All configurations, environments and decisive metrics of a reproduction together."""

    outcome: Outcome
    reason: str


def judge_pairs(first: Pair | None, again: Pair | None, margin: Margin) -> Reproduced:
    """Return whether the new pair shows what the first one did, within the first plan's margin."""
    if first is None or again is None or (why_not := explain_blocked(first, again)):
        reason = why_not if first and again else f"Only {WHICH[first is None]} has it."
        return Reproduced(outcome=Outcome.INCONCLUSIVE, reason=reason, first=first, again=again)
    difference = subtract(first, again)
    bounds = find_log_bounds(margin, first)
    narrow, wide = difference.log_interval(1 - 2 * ALPHA), difference.log_interval(1 - ALPHA)
    both_decided = first.verdict in DECIDED and again.verdict in DECIDED
    has_same, has_other = (
        both_decided and first.verdict == again.verdict,
        both_decided and first.verdict != again.verdict,
    )
    rules = list_rules(narrow, wide, bounds, has_same, has_other)
    outcome = next((each for applies, each in rules if applies), Outcome.INCONCLUSIVE)
    p_beyond = compute_p_beyond(difference, bounds)
    return Reproduced(
        outcome=outcome,
        reason=_explain(outcome, first, again, narrow, wide, bounds),
        first=first,
        again=again,
        bounds=(math.exp(bounds[0]), math.exp(bounds[1])),
        ratio=difference.ratio,
        log_se=difference.se,
        df=difference.df,
        ci90=difference.interval(1 - 2 * ALPHA),
        ci95=difference.interval(1 - ALPHA),
        p_same_effect=max(difference.compute_p_of_bounds(bounds)),
        p_difference=difference.p_difference,
        p_not_reproduced=difference.p_difference if has_other else p_beyond,
    )


def subtract(first: Pair, again: Pair) -> Estimate:
    """Return the estimate of ln(new ratio / first ratio), by the standard errors of both."""
    before, now = make_estimate(first), make_estimate(again)
    if before is None or now is None:
        raise ValueError("Both pairs need a ratio with its standard error.")
    return Estimate(now.log_ratio - before.log_ratio, (*before.arms, *now.arms))


def find_log_bounds(margin: Margin, pair: Pair) -> Interval:
    """Return between which logs of the ratio of both ratios the effects count as the same.

    A plan that asks for "not slower" has a margin in one direction. The same effect is neither
    slower nor faster than before, so that margin holds in both here.
    """
    two_sided = margin if margin.faster < math.inf else Margin(margin.slower, margin.slower)
    return two_sided.find_log_bounds(pair.better)


def list_rules(
    narrow: tuple[Any, Any],
    wide: tuple[Any, Any],
    bounds: Interval,
    has_same_verdict: Any,
    has_other_verdict: Any,
) -> list[tuple[Any, Outcome]]:
    """Return whether each outcome applies, in order: the first one counts, else INCONCLUSIVE.

    Intervals are the 90 and 95 % ones of ln(new ratio / first ratio). Numbers and truths, or arrays
    of them for many studies at once.
    """
    low, high = bounds
    beyond = (wide[0] > high) | (wide[1] < low)
    differs = (wide[0] > 0) | (wide[1] < 0)
    within = (narrow[0] > low) & (narrow[1] < high)
    return [
        (beyond | (has_other_verdict & differs), Outcome.NOT_REPRODUCED),
        (within & has_same_verdict, Outcome.REPRODUCED),
    ]


def compute_p_beyond(difference: Estimate, bounds: Interval) -> float:
    """Return the p of "the difference lies within the bounds": twice the smaller one-sided p."""
    low, high = bounds
    above, _ = difference.compute_p_of_bounds((high, high))
    _, below = difference.compute_p_of_bounds((low, low))
    return min(2 * min(above, below), 1.0)


def explain_blocked(first: Pair, again: Pair) -> str:
    """Return why two pairs cannot be held against each other, as a sentence; "" if they can."""
    for which, pair in zip(WHICH, (first, again), strict=True):
        if pair.verdict in (Verdict.NOT_ATTRIBUTABLE, Verdict.NOT_JUDGED):
            return f"The verdict of {which} is {pair.verdict}."
        if biases := list_biases([pair]):
            return f"The verdict of {which} is stamped {numbers.listed(biases)}."
        if has_stopped_early(pair):
            return (
                f"The verdict of {which} is that of an early interim analysis: what ends there "
                "looks larger than it is."
            )
        if pair.verdict is Verdict.NO_INFERENCE or not has_interval(pair):
            why = f": {pair.detail}" if pair.detail else ""
            return f"Nothing can be inferred from {which}{why}."
    if first.better != again.better or first.unit != again.unit:
        return "Both studies measure different things."
    if first.estimand != again.estimand:
        return "One verdict speaks of nodes and the other one of a partition."
    return ""


def judge_overall(lines: Sequence[Reproduced]) -> Overall:
    """Return what all of them show together.

    REPRODUCED if each of them is, which needs no correction: an intersection-union test. NOT
    REPRODUCED if one of them is after Holm's correction, of which the smallest p alone decides.
    """
    if not lines:
        return Overall(Outcome.INCONCLUSIVE, "There is nothing to compare.")
    count = len(lines)
    if all(line.outcome is Outcome.REPRODUCED for line in lines):
        what = f"All {count:,} comparisons are" if count > 1 else "The only comparison is"
        return Overall(Outcome.REPRODUCED, f"{what} reproduced.")
    failed = [line for line in lines if line.outcome is Outcome.NOT_REPRODUCED]
    judged = sum(line.p_not_reproduced is not None for line in lines)
    if any((line.p_not_reproduced or 0.0) * judged < ALPHA for line in failed):
        noun = numbers.count(len(failed), "comparison")
        verb = "is" if len(failed) == 1 else "are"
        return Overall(
            Outcome.NOT_REPRODUCED,
            f"{noun} of {count:,} {verb} not reproduced, also after Holm’s correction.",
        )
    if failed:
        return Overall(
            Outcome.INCONCLUSIVE,
            f"{len(failed):,} of {count:,} comparisons would be not reproduced, but none is after "
            "Holm’s correction.",
        )
    settled = sum(line.outcome is Outcome.REPRODUCED for line in lines)
    return Overall(Outcome.INCONCLUSIVE, f"{settled:,} of {count:,} comparisons are reproduced.")


def _explain(
    outcome: Outcome, first: Pair, again: Pair, narrow: Interval, wide: Interval, bounds: Interval
) -> str:
    """Return why the outcome is so, as a sentence."""
    verdicts = f"{first.verdict} first and {again.verdict} now"
    is_within = bounds[0] < narrow[0] and narrow[1] < bounds[1]
    if outcome is Outcome.REPRODUCED:
        return (
            f"Both verdicts are {first.verdict}, and the new effect is the first one within the "
            "margin."
        )
    if outcome is Outcome.NOT_REPRODUCED:
        if wide[0] > bounds[1] or wide[1] < bounds[0]:
            return "The new effect differs from the first one by more than the margin."
        return f"The verdicts differ, {verdicts}, and so do the effects."
    if first.verdict not in DECIDED:
        return f"The verdict of the first study is {first.verdict}: there is none to reproduce" + (
            ", though the effects agree within the margin." if is_within else "."
        )
    if again.verdict not in DECIDED:
        return f"The verdict of the new one is {again.verdict}."
    if first.verdict != again.verdict:
        return f"The verdicts differ, {verdicts}, but a difference of the effects is not shown."
    return (
        "The interval of the difference lies neither within the margin nor beyond it: more blocks "
        "would tell."
    )
