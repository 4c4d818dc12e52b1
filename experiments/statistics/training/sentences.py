"""How environments trained, each in one sentence."""

from __future__ import annotations

import math

from experiments.statistics import numbers
from experiments.statistics.training.equivalence import Alike, Outcome

MOST_PLAIN = 0.0005
"""A smaller relative difference is not written in per cent."""


def sentence(one: Alike) -> str:
    """What can be said, with whose training it is about."""
    return f"{one.environment}: {words(one)}"


def words(one: Alike) -> str:
    """What can be said, in plain words."""
    if one.environment == one.baseline:
        return _own(one)
    if one.outcome is Outcome.ALONE:
        return f"no run of {one.baseline} has the same seed."
    if one.outcome is Outcome.EQUAL:
        runs = "in its only run" if one.runs == 1 else f"in {numbers.all_of(one.runs, 'run')}"
        if one.what == "loss":
            return f"equal to {one.baseline} to the bit {runs}."
        return f"the same {one.what} as {one.baseline} {runs}."
    if not one.seeds_known:
        return _unpaired(one)
    some = "its only run" if one.runs == 1 else f"{one.runs - one.equal} of {one.runs} runs"
    head = (
        f"differs from {one.baseline} in {some}, the last {one.what} by "
        f"{_size(one, one.largest)} at most"
    )
    if one.outcome in (Outcome.WITHIN, Outcome.BEYOND):
        return f"{head}; {_held_against_seeds(one)}"
    unknown = f"The noise between {_draws(one)} is unknown: {_why_unknown(one)}"
    if one.outcome is Outcome.WORSE:
        return (
            f"{head}. Its loss fell {numbers.percent(one.lacks, decimals=0)} less far than that of "
            f"{one.baseline}: worse by far. {unknown}."
        )
    return f"{head}. {unknown}."


def _unpaired(one: Alike) -> str:
    """Of runs whose seeds nobody knows: against all of the baseline."""
    side = "higher" if (one.shift or 0) > 0 else "lower"
    head = (
        f"{numbers.count(one.runs, 'run')} against {one.baseline_seeds} of {one.baseline} with "
        f"unknown seeds, the last {one.what} {_size(one, abs(one.shift or 0))} {side} on average"
    )
    if one.outcome in (Outcome.WITHIN, Outcome.BEYOND):
        where = "within" if one.outcome is Outcome.WITHIN else "beyond"
        return (
            f"{head}; {where} the noise between runs (SD {_size(one, one.seed_sd)}, n = "
            f"{one.baseline_seeds}{_p_words(one)})."
        )
    unknown = f"The noise between runs is unknown: {_why_unknown(one)}."
    if one.outcome is Outcome.WORSE:
        lacks = numbers.percent(one.lacks, decimals=0)
        return f"{head}. Its loss fell {lacks} less far: worse by far. {unknown}"
    return f"{head}. {unknown}"


def _p_words(one: Alike) -> str:
    return "" if one.p_holm is None else f", p after Holm {numbers.p_value(one.p_holm)}"


def reason(one: Alike) -> str:
    """Why the verdict is stamped."""
    return f"{sentence(one)} A run that trains otherwise is not comparable in speed."


def _own(one: Alike) -> str:
    """What the baseline is held against, and whether it repeats itself."""
    spread = f"the last {one.what} varies by {_size(one, one.seed_sd)} between them (SD)"
    if not one.seeds_known:
        said = f"{one.seeds} run{'s' * (one.seeds != 1)} whose seeds are not known"
        if one.outcome is Outcome.EQUAL:
            return f"{said}, all equal{' to the bit' * (one.what == 'loss')}."
        return f"{said}; {spread}." if one.seed_sd else f"{said}."
    runs = one.runs + one.seeds
    several = f"{one.seeds} seeds; {spread}" if one.seed_sd else f"{one.seeds} seeds"
    if not one.runs:
        if one.what != "loss" and one.seed_sd:
            return f"{spread}."  # the rest was said of its losses
        if one.seeds == 1:
            return "one run of one seed, so whether it repeats itself is not known."
        return f"one run of each of {several}."
    of = f" of {several}" if one.seeds > 1 else " of one seed"
    if one.equal == one.runs:
        itself = "itself to the bit" if one.what == "loss" else f"its {one.what}"
        return f"repeats {itself} in {numbers.all_of(runs, 'run')}{of}."
    return (
        f"does not repeat itself; {one.runs - one.equal} of {runs} runs{of} differ from the first "
        f"of the same seed, the last {one.what} by {_size(one, one.largest)} at most."
    )


def _held_against_seeds(one: Alike) -> str:
    """How far apart the pairs are, in units of what another seed does."""
    side = "higher" if (one.shift or 0) > 0 else "lower"
    within = one.outcome is Outcome.WITHIN
    shifted = "" if within else f"; on average it is {_size(one, abs(one.shift or 0))} {side}"
    times = numbers.factor(one.apart) if (one.apart or 0) >= 0.01 else "less than 0.01"
    return (
        f"{times} times as far as two {_draws(one)} of {one.baseline} (RMS): "
        f"{'within' if within else 'beyond'} the noise between {_draws(one)} "
        f"(SD {_size(one, one.seed_sd)}, n = {one.baseline_seeds}){shifted}."
    )


def _draws(one: Alike) -> str:
    return "seeds" if one.seeds_known else "runs"


def _why_unknown(one: Alike) -> str:
    if one.baseline_seeds == 1:
        return "one seed" if one.seeds_known else "one run"
    if one.baseline_seeds == 2:
        return f"two {_draws(one)} are too few"
    return f"all {_draws(one)} of {one.baseline} end alike"


def _size(one: Alike, value: float | None) -> str:
    """A difference or spread: relative where logs were compared, points of an accuracy."""
    if value is None:
        return numbers.MISSING
    if one.what != "loss":
        return f"{100 * value:.2g} points"
    if not one.is_relative:
        return f"{value:.2g}"
    share = math.expm1(min(value, 700.0))
    if share >= 0.1:
        return f"{100 * share:,.0f} %"
    return f"{100 * share:.2g} %" if share >= MOST_PLAIN else f"a relative {share:.1g}"
