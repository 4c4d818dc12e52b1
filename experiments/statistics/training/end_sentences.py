"""Sentences about the verdicts on the ends of trainings."""

from __future__ import annotations

import math

from experiments.statistics import numbers
from experiments.statistics.training.end_pairs import (
    DIVERGED,
    ComparedBy,
    EndPair,
    TrainingVerdict,
)
from experiments.statistics.verdicts import BEYOND, DETECTABLE, MOST, TAIL


def describe_end(pair: EndPair) -> str:
    """Return what the ends say, as the rest of a sentence that the verdict or a name begins."""
    if pair.difference is None:
        return f"nothing to compare: {pair.flaw}."
    if pair.se is None:
        return _describe_flaw(pair)
    seen = (
        f"the last {_name(pair)} differs by {write_difference(pair, pair.difference)} "
        f"({_interval(pair)}; {_count(pair)})"
    )
    if pair.margin is None or pair.verdict is None:
        return (
            f"{seen}. The smallest margin that these runs prove is "
            f"{write_provable(pair)}; the plan fixed none, so there is no verdict."
        )
    margin = write_size(pair, pair.margin)
    if pair.verdict is TrainingVerdict.EQUIVALENT:
        seen += f": a difference of {margin} or more is ruled out"
        if pair.detail == DETECTABLE:
            seen += ", though there is a smaller one"
        return f"{seen}."
    if pair.verdict is TrainingVerdict.DIFFERENT:
        size = f"by more than {margin}" if pair.detail == BEYOND else f"whether by {margin} is open"
        return f"{seen}: there is a difference, {size}."
    if pair.detail == DIVERGED:
        return f"{seen}, which is of the runs that did not diverge."
    return f"{seen}: both “the same within {margin}” and “different” fit. {_describe_more(pair)}"


def describe_test(pair: EndPair) -> str:
    """Return the numbers of the tests: both one-sided p, standard error, degrees of freedom."""
    if pair.se is None:
        return numbers.MISSING
    bounds = ""
    if pair.margin is not None:
        bounds = f"p {numbers.p_of_bounds(pair.p_lower_bound, pair.p_upper_bound)}; "
    difference = numbers.p_value(pair.p_difference)
    error = numbers.standard_error(pair.se, pair.df)
    return f"{bounds}p of a difference {difference}; SE {error}"


def _describe_more(pair: EndPair) -> str:
    """Return how many more values would decide, as for speed: a rough number."""
    if pair.more is None or pair.more_between is None:
        return f"Even {MOST:,} more {_units(pair, MOST)} would hardly decide."
    low, high = pair.more_between
    level = numbers.level(1 - 2 * TAIL)
    units = f"{_units(pair, pair.more)} ({level} interval {low:,} to {high:,})"
    return f"About {pair.more:,} more {units} would decide."


def _describe_flaw(pair: EndPair) -> str:
    difference = write_difference(pair, pair.difference or 0.0)
    if pair.flaw == "n = 1":
        return (
            f"the last {_name(pair)} differs by {difference}; a single {_unit(pair)} says nothing "
            "about how much trainings vary."
        )
    if pair.difference == 0:
        return (
            f"every run ended with the {_name(pair)} of the baseline’s: nothing differs, and there "
            "is no spread from which more could be inferred."
        )
    return (
        f"the last {_name(pair)} differs by {difference} each time: without any spread nothing can "
        "be inferred."
    )


def _interval(pair: EndPair) -> str:
    low, high = pair.ci90 or (0.0, 0.0)
    level = numbers.level(1 - 2 * pair.alpha)
    return f"{level} CI {_signed(pair, low)} to {_signed(pair, high)}"


def _count(pair: EndPair) -> str:
    if pair.by is ComparedBy.RUN:
        return f"{pair.n_environment} and {numbers.count(pair.n_baseline, 'run')}"
    return numbers.count(pair.n, pair.by)


def _unit(pair: EndPair) -> str:
    return "run of each" if pair.by is ComparedBy.RUN else str(pair.by)


def _units(pair: EndPair, count: int) -> str:
    of_each = " of each" * (pair.by is ComparedBy.RUN)
    return f"{pair.by}{'s' * (count != 1)}{of_each}"


def _name(pair: EndPair) -> str:
    return pair.what.replace("_", " ")


def write_difference(pair: EndPair, value: float) -> str:
    """Return a difference with its sign and unit: "−0.12 points", "+0.0031"."""
    return f"{_signed(pair, value)} {pair.unit}".rstrip()


def write_size(pair: EndPair, value: float) -> str:
    """Return a size, such as a margin, as it was typed: "0.5 points"."""
    unit = pair.unit if value != 1 else pair.unit.removesuffix("s")
    return f"{value:g} {unit}".rstrip()


def write_provable(pair: EndPair) -> str:
    """Return the smallest provable margin with its unit, rounded up so that it is proved."""
    if pair.smallest_margin is None:
        return numbers.MISSING
    decimals = _decimals(pair)
    up = math.ceil(round(pair.smallest_margin * 10**decimals, 6)) / 10**decimals
    return f"{numbers.fixed(up, decimals)} {pair.unit}".rstrip()


def _decimals(pair: EndPair) -> int:
    """Return so many decimals as show two digits of the standard error; at least two of points."""
    least = 0 if pair.what == "loss" else 2
    if not pair.se or not math.isfinite(pair.se):
        return max(least, 4)
    return min(max(1 - math.floor(math.log10(pair.se)), least), 8)


def _signed(pair: EndPair, value: float) -> str:
    text = numbers.fixed(value, _decimals(pair))
    return text if text.startswith("−") or not float(text) else f"+{text}"
