"""Spreads that a table gives otherwise than as SD or SE: a CV, or the bounds of an interval."""

import re

from experiments.statistics.published import printed
from experiments.statistics.published.columns import find_level
from experiments.statistics.published.printed import Place, Printed, TableError

MOST_UNEVEN = 0.1
"""How far from the mean the middle of an interval may lie, in half-widths, beyond rounding."""


def spread_from_cv(mean: Printed, text: str, place: Place) -> Printed:
    """Return the SD of a coefficient of variation in percent.

    TableError where neither the column's name nor its cells say percent: 0.5 may be 50 %.
    """
    says_percent = re.search(r"%|percent|pct", f"{place.column} {text}", re.IGNORECASE)
    if not says_percent:
        raise TableError(
            f"{place}: is {text} a percentage? Name the column CV %, or write {text} %."
        )
    number = text.removesuffix("%").strip()
    cv = printed.read_spread(number, place, step=None)
    if cv is None:
        raise TableError(f"{place}: it is empty.")
    low, value, high = (mean.value * each / 100 for each in (cv.low, cv.value, cv.high))
    return Printed(value, low, high)


def spread_from_interval(
    mean: Printed, bounds: tuple[str, str], places: tuple[Place, Place], count: int | None
) -> Printed | None:
    """Return the SE of a confidence interval of a mean by Student's t, None without n.

    TableError: a level that nothing says, bounds on one side of the mean, or so uneven that it
    is no interval by Student's t.
    """
    levels = {level for place in places if (level := find_level(place.column)) is not None}
    if len(levels) > 1:
        raise TableError(
            f"{places[0]}: its bounds name two levels, {places[0].column} and {places[1].column}."
        )
    level = levels.pop() if levels else None
    if level is None:
        raise TableError(
            f"{places[0]}: of which level is the interval? Name the column 95 % CI low."
        )
    low, high = (
        printed.read_number(text, place, zero=True)
        for text, place in zip(bounds, places, strict=True)
    )
    if not low <= mean.value <= high:
        raise TableError(
            f"{places[0]}: the mean {mean.value:g} is not between {low:g} and {high:g}."
        )
    half = (high - low) / 2
    step = printed.find_finest_step(bounds)
    uneven = abs((low + high) / 2 - mean.value)
    if uneven > step + (mean.high - mean.low) / 2 + MOST_UNEVEN * half:
        raise TableError(
            f"{places[0]}: {low:g} to {high:g} is not even about {mean.value:g}, so it is no "
            "interval by Student's t; an SD or SE is needed."
        )
    if count is None or count < 2:
        return None
    from experiments.statistics.special_functions import stdtrit  # lazily, as in estimates

    quantile = float(stdtrit(count - 1, (1 + level) / 2))
    return Printed(half / quantile, max(half - step, half / 2) / quantile, (half + step) / quantile)
