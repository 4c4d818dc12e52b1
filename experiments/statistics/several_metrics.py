"""Several decisive metrics: which of them the plan judges, and what all of them show together.

*All* of them must be shown (an intersection-union test; Berger 1982), or they are judged in a
*fixed order*, and what comes after one that is not shown is not judged (Maurer, Hothorn and
Lehmacher 1995). Neither needs stricter levels. Many comparisons in one experiment are corrected for
by Holm in `correct_several_by_holm`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from experiments.statistics import numbers
from experiments.statistics.margins import Goal
from experiments.statistics.multiple_comparisons import adjust_by_holm, apply_adjusted
from experiments.statistics.values import ALPHA, Measured, Pair, Stamp, Verdict
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


@dataclass(frozen=True)
class Part:
    """One decisive metric of a comparison: its pair, or why it has none."""

    metric: Measured
    pair: Pair | None
    problem: str = ""

    @property
    def name(self) -> str:
        """Return how sentences name the metric; two of a workload may have the same label."""
        return self.metric.name

    @property
    def verdict(self) -> Verdict:
        return self.pair.verdict if self.pair else Verdict.NO_INFERENCE

    @property
    def is_judged(self) -> bool:
        return self.verdict is not Verdict.NOT_JUDGED

    @property
    def is_shown(self) -> bool:
        return self.verdict in PROVED.values()


@dataclass(frozen=True)
class Overall:
    """What the decisive metrics of one environment in one configuration show together."""

    baseline: str
    environment: str
    rule: MetricsRule
    goal: Goal
    parts: tuple[Part, ...]
    """In the order of the plan, the main metric first."""
    p: float | None
    """The p of "all are shown": the largest of theirs. None if any has none."""
    p_holm: float | None
    """The same among all comparisons of the experiment."""
    before: tuple[Part, ...] = ()
    """The metrics with the runs that persons have excluded; empty where nobody excluded any."""

    @property
    def verdict(self) -> Verdict:
        """Return what was to be shown if all metrics show it, else NOT SHOWN."""
        return _find_verdict(self.goal, self.parts)

    @property
    def verdict_before(self) -> Verdict | None:
        """Return the verdict with the excluded runs; None where nobody excluded any."""
        return _find_verdict(self.goal, self.before) if self.before else None

    @property
    def in_the_way(self) -> list[Part]:
        """Return the metrics that were judged and do not show what was to be shown."""
        return _list_in_the_way(self.parts)

    @property
    def not_judged(self) -> list[Part]:
        return [part for part in self.parts if not part.is_judged]

    @property
    def stamps(self) -> tuple[Stamp, ...]:
        """Return the reservations of all metrics that were judged, and its own."""
        stamps: dict[Stamp, None] = {
            stamp: None
            for part in self.parts
            if part.pair
            for stamp in part.pair.stamps
            if stamp is not Stamp.NOT_AFTER_HOLM
        }
        if self.is_lost_by_holm:
            stamps[Stamp.NOT_AFTER_HOLM] = None
        return tuple(stamps)

    @property
    def is_lost_by_holm(self) -> bool:
        """Return whether what all show does not survive among all comparisons."""
        is_shown = self.verdict is not Verdict.NOT_SHOWN
        return is_shown and self.p_holm is not None and self.p_holm > ALPHA

    @property
    def claim(self) -> str:
        """Return the first part of the sentence."""
        verb = "is not shown to be" if self.verdict is Verdict.NOT_SHOWN else "is"
        what = "not slower than" if self.goal is Goal.NOT_SLOWER else "equivalent to"
        return f"{self.environment} {verb} {what} {self.baseline} in {self._all}"

    @property
    def evidence(self) -> str:
        """Return the rest: the largest p, or which metric stood in the way."""
        if self.verdict is Verdict.NOT_SHOWN:
            return f": {describe_obstacles(self.parts)}."
        p = f"largest p of {self.goal.text} {numbers.p_value(self.p)}"
        holm = f", {numbers.p_value(self.p_holm)} after Holm’s correction"
        lost = ": this does not survive it" if self.is_lost_by_holm else ""
        return f" ({p}{holm if self.p_holm != self.p else ''}{lost})."

    @property
    def sentence(self) -> str:
        """Return both parts, and the verdict with excluded runs."""
        return " ".join(filter(None, (self.claim + self.evidence, self.sentence_before)))

    @property
    def sentence_before(self) -> str:
        """Return what it is with the runs that were excluded by hand; "" where none were."""
        if not self.before:
            return ""
        obstacles = describe_obstacles(self.before)
        why = f" ({obstacles})" if obstacles else ""
        return f"With the runs that were excluded by hand it is {self.verdict_before}{why}."

    def make_columns(self, rank: int) -> dict[str, Any]:
        """Return the columns that files have of the metric of this rank, from 1, and of all."""
        return {
            "decisive_rank": rank,
            "judged_by_plan": self.parts[rank - 1].is_judged,
            "metrics_rule": str(self.rule),
            "overall_verdict": str(self.verdict),
            "overall_p": self.p,
            "overall_p_holm": self.p_holm,
            "overall_survives_holm": not self.is_lost_by_holm,
            "overall_in_the_way": "; ".join(part.metric.name for part in self.in_the_way),
            "overall_before_exclusion": str(self.verdict_before or ""),
            "overall_sentence": self.sentence,
        }

    @property
    def _all(self) -> str:
        count = numbers.all_of(len(self.parts), "decisive metric")
        return f"{count}, in their fixed order" if self.rule is MetricsRule.IN_ORDER else count


def describe_obstacles(parts: Sequence[Part]) -> str:
    """Return which metrics stood in the way with which verdicts; "" if none did."""
    obstacles = _list_in_the_way(parts)
    if not obstacles:
        return ""
    text = numbers.listed([f"{part.name} ({part.verdict})" for part in obstacles])
    text += " stood in the way"
    shown = [part.name for part in parts if part.is_shown]
    if shown:
        text += f"; shown for {numbers.listed(shown)}"
    not_judged = [part.name for part in parts if not part.is_judged]
    if not_judged:
        text += f"; {numbers.listed(not_judged)} {'was' if len(not_judged) == 1 else 'were'} not "
        text += "judged by the plan"
    return text


def _find_verdict(goal: Goal, parts: Sequence[Part]) -> Verdict:
    return PROVED[goal] if all(part.is_shown for part in parts) else Verdict.NOT_SHOWN


def _list_in_the_way(parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if part.is_judged and not part.is_shown]


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
    paths = [_take_largest_so_far(row) for row in rows]
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


def _take_largest_so_far(row: Sequence[float | None]) -> list[float | None]:
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


def judge_together(
    parts_by_comparison: Sequence[Sequence[Part]],
    rule: MetricsRule,
    goal: Goal,
    baseline: str,
    environments: Sequence[str],
    before: Sequence[Sequence[Part]] = (),
) -> list[Overall]:
    """Return what all metrics of each comparison show together, of corrected pairs.

    The p of all is the largest, which an intersection-union test needs not correct, and over the
    comparisons it is corrected by Holm. In a fixed order that of the last metric has both.
    """
    largest = [
        _take_largest_so_far([part.pair.p_goal if part.pair else None for part in parts])[-1]
        for parts in parts_by_comparison
    ]
    adjusted = adjust_by_holm(largest)
    if rule is MetricsRule.IN_ORDER:  # comparisons that stopped earlier belong to the family
        adjusted = [
            parts[-1].pair.p_goal_holm if parts[-1].pair else None for parts in parts_by_comparison
        ]
    return [
        Overall(
            baseline=baseline,
            environment=environment,
            rule=rule,
            goal=goal,
            parts=tuple(parts),
            p=p,
            p_holm=p_holm,
            before=tuple(before[i]) if before else (),
        )
        for i, (environment, parts, p, p_holm) in enumerate(
            zip(environments, parts_by_comparison, largest, adjusted, strict=True)
        )
    ]
