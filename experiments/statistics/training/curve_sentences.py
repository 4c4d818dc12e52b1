"""Sentences about whole loss curves."""

from __future__ import annotations

import math

from experiments.statistics import numbers
from experiments.statistics.training.end_pairs import ComparedBy
from experiments.statistics.training.loss_curves import CurvePair


def describe_curve(pair: CurvePair) -> str:
    """Return what the whole curves say, as the rest of a sentence that a name begins."""
    return " ".join(filter(None, (describe_diverged(pair), _describe_test(pair), _reach(pair))))


def describe_diverged(pair: CurvePair) -> str:
    """Return how many runs diverged; "" where none did."""
    if not pair.diverged:
        return ""
    named = numbers.listed(
        [f"{numbers.count(count, 'run')} of {name}" for name, count in pair.diverged.items()]
    )
    return f"{named} diverged (the loss was no number any more) and left no curve to compare:"


def _describe_test(pair: CurvePair) -> str:
    if pair.p is None:
        return f"nothing can be said of the whole curve: {pair.why_not}."
    p = numbers.p_value(pair.p)
    how = f"p {p if p.startswith('<') else f'= {p}'}, {_describe_arrangements(pair)}"
    where = f"at step {pair.at_step:,}, where the loss is {_size(pair)} on average"
    if pair.has_too_few:
        return (
            f"too few to say: with {_count(pair)} no difference can have a p below "
            f"{pair.smallest_p:.3g}. The curves are farthest apart {where}."
        )
    if pair.is_different:
        return f"differs along the curve ({how}), most clearly {where}."
    return f"no difference found along the curve ({how}), which does not show that there is none."


def _describe_arrangements(pair: CurvePair) -> str:
    all_or_some = "all" if pair.is_exact else "of"
    kind = "permutations of the labels" if pair.by is ComparedBy.RUN else "sign flips"
    return f"{all_or_some} {pair.arrangements:,} {kind}; {_count(pair)}"


def _count(pair: CurvePair) -> str:
    if pair.by is ComparedBy.RUN:
        return f"{pair.n_environment} and {numbers.count(pair.n_baseline, 'run')}"
    return numbers.count(pair.n, pair.by)


def _size(pair: CurvePair) -> str:
    """Return the mean difference at the clearest step, with its direction."""
    largest = pair.largest or 0.0
    side = "higher" if largest > 0 else "lower"
    if not pair.is_relative:
        return f"{abs(largest):.2g} {side}"
    share = math.expm1(min(largest, 700.0))
    return f"{100 * abs(share):.2g} % {side}"


def _reach(pair: CurvePair) -> str:
    """Return how many steps were compared, where runs have more."""
    if not pair.x or pair.steps == pair.longest:
        return ""
    return (
        f"Compared are the {pair.steps:,} steps that all runs have, of {pair.longest:,} of the "
        "longest."
    )
