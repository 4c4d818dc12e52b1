"""Extensions: repeats added after an inconclusive verdict, and how often both verdicts are wrong.

The first verdict was judged at the whole 5 %, so no second one fits into 5 %. That one is judged
at the stricter level that two planned analyses would each have had (Pocock, Biometrika 64, 1977) at
this share of the data, and how often the two together are wrong is computed and said.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from experiments.statistics.estimates import Estimate
from experiments.statistics.margins import Margin
from experiments.statistics.values import ALPHA, Better
from experiments.statistics.verdicts import POWER, compute_chance_of_decision, find_fewest

LEVEL_DIGITS = 4
"""Digits of a level after the point, as in Pocock's table: what is printed is what decides."""
NODES = 32
"""Points of the integrals over the first values: so the rates are right to 0.0002."""
NODES_ADDED = 96
"""Points of the integral over the mean of the added values, where the integrand has corners."""
FARTHEST = 8.5
"""Standard deviations of a normal variable beyond which nothing is left to integrate."""


@lru_cache(maxsize=1024)
def compute_extension_level(first: int, added: int) -> float:
    """Return the two-sided level of the second verdict, after `added` repeats more than `first`.

    The level at which two planned analyses, after `first` and after all, together raise a false
    alarm in 5 %: 0.0294 for as many as there were (`interim_analyses.POCOCK`). It lies between
    0.025 for very many and 0.05 for very few. The SD is taken for known, as for that table.
    """
    if first < 1 or added < 1:
        raise ValueError(f"{added} repeats cannot be added to {first}.")
    share = first / (first + added)
    low, high = ALPHA / 2, ALPHA
    while high - low > 1e-7:
        middle = (low + high) / 2
        low, high = (low, middle) if _alarms_of_two(middle, share) > ALPHA else (middle, high)
    return round((low + high) / 2, LEVEL_DIGITS)


def _alarms_of_two(level: float, share: float) -> float:
    """Return P(either of two analyses, each two-sided at `level`, rejects); the SD is known.

    The first one has a `share` of the data, and its root is the correlation of both.
    """
    import numpy as np

    from experiments.statistics.special_functions import ndtr, ndtri

    limit = -float(ndtri(level / 2))
    nodes, weights = _find_nodes(4 * NODES)
    first = limit * nodes
    density = limit * weights * np.exp(-(first**2) / 2) / math.sqrt(2 * math.pi)
    mean, sd = math.sqrt(share) * first, math.sqrt(1 - share)
    inside = ndtr((limit - mean) / sd) - ndtr((-limit - mean) / sd)
    return 1 - float((density * inside).sum())


@cache
def _find_nodes(count: int) -> tuple[Any, Any]:
    """Return Gauss and Legendre's nodes and weights; finding them takes longer than to use them."""
    import numpy as np

    return np.polynomial.legendre.leggauss(count)


@dataclass(frozen=True)
class ErrorRates:
    """How often the first verdict at 5 % or the second one is wrong, whichever comes first."""

    difference: float
    """Of a ratio of 1: that either calls it slower or faster."""
    goal: float
    """Of a ratio at the margin: that either calls it equivalent, or not slower."""


@lru_cache(maxsize=1024)
def compute_error_rates(first: int, added: int, level: float, *, paired: bool) -> ErrorRates:
    """Return how often both verdicts together are wrong, after `first` values and `added` more.

    Of Student's t with as many values as there are: exact for blocks whose log-ratios are normal,
    and for independent runs that vary alike in both environments. At most so often: an experiment
    that ends with the right verdict at the first one is counted as if it went on. A first verdict
    without any inference (`first` below 2) cannot have been wrong.
    """
    if first < 2:
        return ErrorRates(level, level)
    arms = 1 if paired else 2
    return ErrorRates(
        _errors_of_two(first, added, arms, ALPHA / 2, level / 2, sides=2),
        _errors_of_two(first, added, arms, ALPHA, level, sides=1),
    )


def _errors_of_two(
    first: int, added: int, arms: int, tail: float, later_tail: float, *, sides: int
) -> float:
    """Return P(the first t lies beyond `tail`, or the one of all values beyond `later_tail`).

    Let z be the standardised mean of the first values, q their sum of squares, and the added ones
    likewise. The t of all values is made of the mean a of both z and of the sum of squares: of both
    q, and of the square of b, how far apart the two means are. q of the added values is integrated
    by its chi-square distribution, the other three on a grid.
    """
    import numpy as np

    from experiments.statistics.special_functions import chdtr, chdtri, ndtr, ndtri, stdtrit

    total, share = first + added, first / (first + added)
    df_first, df_total = arms * (first - 1), arms * (total - 1)
    # Of two environments, what both differ by from the first values to the added ones is noise too.
    df_added = arms * (added - 1) + (arms - 1)
    limit = float(stdtrit(df_first, 1 - tail))
    limit_of_all = float(stdtrit(df_total, 1 - later_tail))

    nodes, weights = _find_nodes(NODES)
    shares, share_weights = (nodes + 1) / 2, weights / 2
    q = chdtri(df_first, shares)[:, None, None]
    q_weights = share_weights[:, None, None]
    end = np.minimum(limit * np.sqrt(q / df_first), FARTHEST)
    start = -end if sides == 2 else -FARTHEST
    # Of the z for which the first verdict is open: shares of their probability.
    low, high = ndtr(start), ndtr(end)
    z = ndtri(low + (high - low) * shares[None, :, None])
    z_weights = (high - low) * share_weights[None, :, None]
    # A single added block has no spread of its own to integrate, which leaves a jump.
    nodes, weights = _find_nodes(NODES_ADDED if df_added else 8 * NODES_ADDED)
    z_added = (FARTHEST * nodes)[None, None, :]
    added_weights = (FARTHEST * weights * np.exp(-((FARTHEST * nodes) ** 2) / 2))[None, None, :]
    added_weights = added_weights / math.sqrt(2 * math.pi)

    a = math.sqrt(share) * z + math.sqrt(1 - share) * z_added
    b = math.sqrt(1 - share) * z - math.sqrt(share) * z_added
    room = df_total * (a / limit_of_all) ** 2 - q - b**2
    # Beyond the limit where the added values vary so little that t is large enough.
    least = np.where(room > 0, 1.0, 0.0)
    beyond = least if df_added == 0 else least * chdtr(df_added, np.maximum(room, 0))
    if sides == 1:
        beyond = np.where(a > 0, beyond, 0.0)
    later = float((beyond * q_weights * z_weights * added_weights).sum())
    return sides * tail + later


@dataclass(frozen=True)
class OpenQuestion:
    """An inconclusive comparison: what is known of it, and what is to be shown."""

    estimate: Estimate
    margin: Margin
    better: Better | None


def count_extension(questions: Sequence[OpenQuestion], repeats: int, most: int) -> int | None:
    """Return the fewest repeats to add that decide each of these in 80 %; None if `most` do not.

    As `verdicts.count_more_needed`, at the level that an extension by so many has. Of what few
    repeats know of their spread it is a rough number.
    """
    needed = 1
    for question in questions:
        enough = _make_test(question, repeats)
        if enough(needed):
            continue
        fewest = find_fewest(enough, first=needed + 1)
        if fewest is None or fewest > most:
            return None
        needed = fewest
    return needed


def _make_test(question: OpenQuestion, repeats: int) -> Callable[[int], bool]:
    def is_enough(added: int) -> bool:
        level = compute_extension_level(repeats, added)
        later = question.estimate.more(added)
        chance = compute_chance_of_decision(later, question.margin, level, question.better)
        return chance >= POWER

    return is_enough
