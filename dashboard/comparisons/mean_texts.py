"""Mean and standard deviation of runs as text, in one way on all pages."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.comparisons.accuracies import Spread
from experiments.statistics import numbers

LARGEST = 1e100
"""Of values beyond this the square, and so the standard deviation, would be no number."""


def describe_mean(values: Sequence[float], unit: str) -> str:
    """Return mean and standard deviation: "22.94 ± 0.31 ms (SD, n = 5)"; "" without a mean.

    There is none without values, and where one of them is infinite or not a number.
    """
    if not values or not all(abs(value) < LARGEST for value in values):
        return ""
    spread = Spread.of(values)
    return numbers.spread(spread.mean, spread.sd, spread.n, "" if unit == "1" else unit)
