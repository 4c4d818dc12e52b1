"""Test of the normal distribution: a diagnostic on which no verdict depends."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST = 8
"""With fewer values even an exponential distribution passes most of the time."""
MOST = 5000
"""Royston's approximation is only valid for so many values."""


@dataclass(frozen=True)
class Normality:
    """Shapiro and Wilk's W of n values, its p, and the points of a quantile-quantile plot.

    Each point is (quantile of the standard normal distribution, value in SDs from the mean).
    """

    of: str
    n: int
    w: float
    p: float
    points: tuple[tuple[float, float], ...]


def check_normality(of: str, values: Sequence[float]) -> Normality | None:
    """Return the diagnostic; None where there are too few values, too many, or no spread.

    By Royston, Applied Statistics 44 (1995), algorithm AS R94, as in scipy.stats.shapiro.
    """
    n = len(values)
    mean = math.fsum(values) / n if n else 0.0
    squares = math.fsum((value - mean) ** 2 for value in values)
    if not FEWEST <= n <= MOST or squares <= 1e-24 * n:
        return None
    from experiments.statistics.special_functions import ndtr, ndtri  # lazily, as in estimates

    expected = [float(ndtri((i - 0.375) / (n + 0.25))) for i in range(1, n + 1)]
    ordered = sorted(values)
    weights = _weights(expected)
    sum_of = math.fsum(w * (x - mean) for w, x in zip(weights, ordered, strict=True))
    w = min(sum_of**2 / squares, 1.0)
    sd = math.sqrt(squares / (n - 1))
    points = zip(expected, ((value - mean) / sd for value in ordered), strict=True)
    return Normality(of, n, w, float(ndtr(-_z(w, n))), tuple(points))


def _weights(expected: Sequence[float]) -> list[float]:
    """Return weights of the ordered values, from the quantiles expected if normal."""
    n, squares = len(expected), math.fsum(m**2 for m in expected)
    u, length = 1 / math.sqrt(n), math.sqrt(squares)
    last = _polynomial(u, 0, 0.221157, -0.147981, -2.071190, 4.434685, -2.706056)
    second = _polynomial(u, 0, 0.042981, -0.293762, -1.752461, 5.682633, -3.582633)
    last, second = last + expected[-1] / length, second + expected[-2] / length
    left = squares - 2 * expected[-1] ** 2 - 2 * expected[-2] ** 2
    scale = math.sqrt(left / (1 - 2 * last**2 - 2 * second**2))
    inner = [m / scale for m in expected[2:-2]]
    return [-last, -second, *inner, second, last]


def _z(w: float, n: int) -> float:
    """Return W as a standard normal value: large where the values are not normal."""
    if w >= 1:
        return -math.inf
    away = math.log(1 - w)
    if n < 12:
        mean = _polynomial(n, 0.5440, -0.39978, 0.025054, -0.0006714)
        log_sd = _polynomial(n, 1.3822, -0.77857, 0.062767, -0.0020322)
        room = -2.273 + 0.459 * n - away
        return (-math.log(room) - mean) / math.exp(log_sd) if room > 0 else math.inf
    log_n = math.log(n)
    mean = _polynomial(log_n, -1.5861, -0.31082, -0.083751, 0.0038915)
    log_sd = _polynomial(log_n, -0.4803, -0.082676, 0.0030302)
    return (away - mean) / math.exp(log_sd)


def _polynomial(x: float, *coefficients: float) -> float:
    """Return the value of a polynomial; coefficients from the constant upwards."""
    value = 0.0
    for coefficient in reversed(coefficients):
        value = value * x + coefficient
    return value
