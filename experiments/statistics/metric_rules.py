"""Rules for several decisive metrics: which of them a plan judges, and how p values are corrected.

*All* of them must be shown (an intersection-union test; Berger 1982), or they are judged in a
*fixed order*, and what comes after one that is not shown is not judged (Maurer, Hothorn and
Lehmacher 1995). Neither needs stricter levels. Many comparisons in one experiment are corrected for
by Holm in `correct_several_by_holm`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

from experiments.statistics import numbers
from experiments.statistics.multiple_comparisons import adjust_by_holm, apply_adjusted
from experiments.statistics.values import Pair, Verdict
from experiments.statistics.verdicts import PROVED

MOST_METRICS = 4
"""Decisive metrics of a plan, the main one among them."""


class MetricsRule(StrEnum):
    """How the decisive metrics of a plan are judged together."""

    ALL = "all"
    IN_ORDER = "in order"


def list_judged(rule: MetricsRule, shown: Sequence[Any]) -> list[Any]:
    """Return whether the plan judges each metric, by whether each shows what was to be shown.

    `shown` are truth values in the order of the plan, or arrays of them for many at once.
    """
    judged: list[Any] = []
    goes_on: Any = True
    for is_shown in shown:
        judged.append(goes_on)
        if rule is MetricsRule.IN_ORDER:
            goes_on = goes_on & is_shown
    return judged


Row = Sequence[Pair | None]
"""The pairs of one environment in one configuration, one for each metric in the plan's order."""


def correct_several_by_holm(rows: Sequence[Row], rule: MetricsRule) -> list[list[Pair | None]]:
    """Return the pairs as the plan judges them, with p values adjusted for all comparisons.

    Of a difference the family is all pairs of all metrics: each SLOWER is a claim of its own. Of
    what was to be shown it is, where all metrics must show it, the pairs of one metric: nothing is
    claimed of one alone. In a fixed order it is `adjust_in_order`.
    """
    if not rows:
        return []
    differences = [pair.p_difference if pair else None for row in rows for pair in row]
    adjusted = iter(adjust_by_holm(differences))
    by_difference = [[next(adjusted) for _ in row] for row in rows]
    goals = [[pair.p_goal if pair else None for pair in row] for row in rows]
    if rule is MetricsRule.ALL:
        columns = [adjust_by_holm(column) for column in zip(*goals, strict=True)]
        by_goal = [list(row) for row in zip(*columns, strict=True)]
    else:
        by_goal = adjust_in_order(goals)
    family = f"{len(rows)} comparisons of {len(rows[0])} decisive metrics"
    corrected: list[list[Pair | None]] = []
    for row, row_difference, row_goal in zip(rows, by_difference, by_goal, strict=True):
        shown = [pair is not None and pair.verdict in PROVED.values() for pair in row]
        judged = list_judged(rule, shown)
        corrected.append(
            [
                pair
                and (
                    apply_adjusted(pair, row_difference[i], row_goal[i], family)
                    if judged[i]
                    else describe_only(pair)
                )
                for i, pair in enumerate(row)
            ]
        )
    return corrected


def adjust_in_order(rows: Sequence[Sequence[float | None]]) -> list[list[float | None]]:
    """Return p values adjusted for many comparisons, each with metrics in a fixed order.

    A comparison has its share of the level, which goes from a metric that is shown to the next, and
    to the other comparisons only when all of its metrics are shown (Bretz et al. 2009: the graph
    whose paths are the orders). So all claims together err no more often than one. Of one metric it
    is Holm's correction, of one comparison the largest p so far.
    """
    paths = [take_largest_so_far(row) for row in rows]
    count = sum(path[0] is not None for path in paths)
    ends = [1.0 if path[-1] is None else path[-1] for path in paths]
    order = sorted((i for i in range(len(rows)) if paths[i][0] is not None), key=ends.__getitem__)
    # The level at which so many comparisons have shown all of their metrics.
    levels = [0.0]
    for done, i in enumerate(order):
        levels.append(max(levels[-1], min(1.0, ends[i] * (count - done))))
    adjusted: list[list[float | None]] = [[None] * len(row) for row in rows]
    for place, i in enumerate(order):
        adjusted[i] = [
            None
            if p is None
            else min(max(levels[done], min(1.0, p * (count - done))) for done in range(place + 1))
            for p in paths[i]
        ]
    return adjusted


def take_largest_so_far(row: Sequence[float | None]) -> list[float | None]:
    """Return the largest p up to each place; None from the first on that has none."""
    path: list[float | None] = []
    largest: float | None = 0.0
    for p in row:
        largest = None if largest is None or p is None else max(largest, p)
        path.append(largest)
    return path


def describe_only(pair: Pair) -> Pair:
    """Return a pair that the plan does not judge: the estimate stays, without verdict and p."""
    ratio = numbers.ratio(pair.ratio, pair.ci95)
    return replace(
        pair,
        verdict=Verdict.NOT_JUDGED,
        verdict_by_numbers=None,
        detail="",
        stamps=(),
        reasons=(),
        p_difference=None,
        p_equivalence=None,
        p_not_slower=None,
        p_lower_bound=None,
        p_upper_bound=None,
        smallest_margin=None,
        claim="Not judged by the plan",
        evidence=f": a metric before it in the fixed order was not shown. Ratio {ratio} (95 % CI), "
        f"{pair.size_on_nodes}: an estimate.",
    )
