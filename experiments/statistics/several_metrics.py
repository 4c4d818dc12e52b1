"""What several decisive metrics of one comparison show together, as a verdict and a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.statistics import numbers
from experiments.statistics.claims import Wording, choose_wording, claim_shown, quote_goal
from experiments.statistics.margins import Goal
from experiments.statistics.metric_rules import MetricsRule, take_largest_so_far
from experiments.statistics.multiple_comparisons import adjust_by_holm
from experiments.statistics.values import ALPHA, Measured, Pair, Stamp, Verdict
from experiments.statistics.verdicts import PROVED


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
    configuration: str = ""
    """Its name; empty where there is no other one."""

    @property
    def verdict(self) -> Verdict:
        """Return what was to be shown if all metrics show it, else NOT SHOWN.

        Both sides' runs are those of all metrics, so NOT ATTRIBUTABLE holds for all of them.
        """
        return _find_verdict(self.goal, self.parts)

    @property
    def wording(self) -> Wording:
        """Return the words for all of its metrics together."""
        return choose_wording(part.metric for part in self.parts)

    @property
    def goal_text(self) -> str:
        """Return what is to be shown as a noun."""
        return quote_goal(self.goal, self.wording)

    @property
    def is_shown(self) -> bool:
        """Return whether all metrics show what was to be shown."""
        return self.verdict in PROVED.values()

    @property
    def verdict_before(self) -> Verdict | None:
        """Return the verdict with the excluded runs; None where nobody excluded any."""
        return _find_verdict(self.goal, self.before) if self.before else None

    @property
    def in_the_way(self) -> list[Part]:
        """Return the metrics that were judged and do not show what was to be shown."""
        return _list_in_the_way(self.parts)

    @property
    def obstacles(self) -> str:
        """Return the names of those metrics: "peak_memory and step_time"; "" if there is none."""
        return numbers.listed([part.name for part in self.in_the_way] or [""])

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
        return self.is_shown and self.p_holm is not None and self.p_holm > ALPHA

    @property
    def claim(self) -> str:
        """Return the first part of the sentence."""
        claim = claim_shown(
            self.environment,
            self.baseline,
            self.goal,
            self.wording,
            is_shown=self.is_shown,
        )
        return f"{claim} in {self._all}"

    @property
    def evidence(self) -> str:
        """Return the rest: the largest p, or which metric stood in the way."""
        if not self.is_shown:
            return f": {describe_obstacles(self.parts)}."
        p = f"largest p of {self.goal_text} {numbers.p_value(self.p)}"
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
    if any(part.verdict is Verdict.NOT_ATTRIBUTABLE for part in parts):
        return Verdict.NOT_ATTRIBUTABLE
    return PROVED[goal] if all(part.is_shown for part in parts) else Verdict.NOT_SHOWN


def _list_in_the_way(parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if part.is_judged and not part.is_shown]


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
        take_largest_so_far([part.pair.p_goal if part.pair else None for part in parts])[-1]
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
