"""The correction for many comparisons in one experiment."""

from collections.abc import Sequence
from dataclasses import replace

from experiments.statistics.margins import Goal
from experiments.statistics.values import Pair, Stamp, Verdict


def correct_by_holm(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs with Holm's (1979) adjusted p values, for each question on its own.

    The family is all pairs of an experiment; those without inference do not count. A verdict that
    its adjusted p no longer supports keeps its word and is stamped NOT AFTER HOLM.
    """
    difference = adjust_by_holm([pair.p_difference for pair in pairs])
    goal = adjust_by_holm([pair.p_goal for pair in pairs])
    family = sum(p is not None for p in difference)
    return [
        apply_adjusted(pair, p_difference, p_goal, f"{family} comparisons")
        for pair, p_difference, p_goal in zip(pairs, difference, goal, strict=True)
    ]


def apply_adjusted(
    pair: Pair, p_difference: float | None, p_goal: float | None, family: str
) -> Pair:
    """Return the pair with its adjusted p, stamped where its verdict does not survive them.

    Of one that is not attributable that is the verdict that the numbers alone would give.
    `family`: how many there are, as the reason names them.
    """
    deciding = {
        Verdict.EQUIVALENT: p_goal,
        Verdict.NOT_SLOWER: p_goal,
        Verdict.SLOWER: p_difference,
        Verdict.FASTER: p_difference,
    }.get(pair.verdict_by_numbers or pair.verdict)
    pair = replace(pair, p_difference_holm=p_difference)
    if pair.goal is Goal.NOT_SLOWER:
        pair = replace(pair, p_not_slower_holm=p_goal)
    else:
        pair = replace(pair, p_equivalence_holm=p_goal)
    if deciding is None or deciding <= pair.alpha:
        return pair
    reason = f"Among {family} the adjusted p is {deciding:.2g}."
    return replace(
        pair, stamps=(*pair.stamps, Stamp.NOT_AFTER_HOLM), reasons=(*pair.reasons, reason)
    )


def adjust_by_holm(ps: Sequence[float | None]) -> list[float | None]:
    """Return p values adjusted by Holm's step-down; None stays None."""
    ordered = sorted((p, i) for i, p in enumerate(ps) if p is not None)
    adjusted: list[float | None] = [None] * len(ps)
    largest = 0.0
    for rank, (p, i) in enumerate(ordered):
        largest = max(largest, min(1.0, p * (len(ordered) - rank)))
        adjusted[i] = largest
    return adjusted
