"""The facts of both sides of each pair: what differs, how grave that is and why, and the rest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache

from dashboard.comparisons.panel_base import ExperimentPanel, Rows
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import ExperimentComparison, Group
from experiments.comparisons.environment_facts import read_environment_facts
from experiments.confounder_table import Row, read_table
from experiments.natural_order import sort_items_naturally, sort_naturally
from experiments.statistics import Pair
from experiments.statistics.compared_facts import ComparedFacts, FactDifference

MOST_SHOWN = 100
"""Differences and equal facts of one pair that the page shows; files have all that are kept."""
MOST_OPEN = 12
"""Differences of one pair that are shown at once; further ones unfold."""
MOST_VALUES = 3
CONSEQUENCES = {
    "blocking": "not attributable",
    "likely": "confounded",
    "cosmetic": "shown only",
}


@dataclass(frozen=True)
class ShownDifference:
    """A fact that is not known to be the same, with its row of the table."""

    difference: FactDifference
    where: str
    reason: str
    anchor: str
    """Of the paragraph about it in the document."""

    @property
    def consequence(self) -> str:
        if self.difference.is_waived:
            return "confounded (waived before the launch)"
        return CONSEQUENCES[self.difference.grade]


@dataclass(frozen=True)
class PairFacts:
    """The facts of one environment and the baseline in one configuration."""

    configuration: str
    environment: str
    facts: ComparedFacts
    differing: list[ShownDifference]
    one_sided: list[ShownDifference]
    """Known on one side only."""
    equal: list[tuple[str, str]]
    """Facts that are the same in every block, each with its values on the baseline."""
    more: int

    @property
    def first(self) -> list[ShownDifference]:
        """Return the differences that are shown at once, the gravest."""
        return self.differing[:MOST_OPEN]

    @property
    def folded(self) -> list[ShownDifference]:
        """Return the differences that are shown when they are unfolded."""
        return self.differing[MOST_OPEN:]


class FactsCompared(ExperimentPanel):
    """What the snapshots of both sides say, graded by the table of docs/confounders.md."""

    name = "facts"
    heading = "Facts compared"
    at_once = 1

    def compute(
        self, comparison: ExperimentComparison, request: OpenRequest
    ) -> list[PairFacts] | None:
        if not self.is_offered(comparison):
            return None
        values = read_environment_facts(comparison.experiment)
        return [
            _show(group, pair, pair.facts, values.get(pair.baseline, {}))
            for group in self.narrow(comparison, request).groups
            for pair in group.pairs
            if pair.facts
        ]

    def is_offered(self, comparison: ExperimentComparison) -> bool:
        return any(pair.facts for pair in comparison.pairs)

    def count(self, comparison: ExperimentComparison) -> int | None:
        """Return how many facts differ so that a verdict is stamped, in any comparison."""
        names = {
            row.fact for pair in comparison.pairs if pair.facts for row in pair.facts.confounding
        }
        return len(names) or None

    def export(self, comparison: ExperimentComparison) -> dict[str, Rows]:
        rows = [
            {
                **comparison.about,
                **group.configuration,
                "environment": pair.environment,
                "fact": row.fact,
                "on_baseline": row.on_baseline,
                "in_environment": row.in_environment,
                "blocks": row.pairs,
                "of_blocks": pair.facts.pairs,
                "grade": row.grade,
                "waived": row.is_waived,
                "reason": _read_reason(row),
            }
            for group in comparison.groups
            for pair in group.pairs
            if pair.facts
            for row in pair.facts.differences
        ]
        return {"facts": rows}


def _show(
    group: Group, pair: Pair, facts: ComparedFacts, on_baseline: Mapping[str, set[str]]
) -> PairFacts:
    shown = [_show_difference(facts, row) for row in facts.in_natural_order[:MOST_SHOWN]]
    different = {row.fact for row in facts.differences}
    equal = [
        (name, ", ".join(sort_naturally(values)[:MOST_VALUES]) + _mark_more(values))
        for name, values in sort_items_naturally(on_baseline)
        if name not in different
    ]
    return PairFacts(
        configuration=group.name or group.title,
        environment=pair.environment,
        facts=facts,
        differing=[row for row in shown if row.difference.is_known],
        one_sided=[row for row in shown if not row.difference.is_known],
        equal=equal[: 5 * MOST_SHOWN],
        more=facts.more + len(facts.differences[MOST_SHOWN:]),
    )


def _mark_more(values: Collection[str]) -> str:
    return " ..." if len(values) > MOST_VALUES else ""


def _show_difference(facts: ComparedFacts, difference: FactDifference) -> ShownDifference:
    row = _find_row(difference.key)
    return ShownDifference(
        difference,
        facts.describe_where(difference) or ("in every block" if facts.paired else "between runs"),
        _read_reason(difference),
        row.anchor if row else "",
    )


def _read_reason(difference: FactDifference) -> str:
    row = _find_row(difference.key)
    return row.reason if row else "It is not in the table of this version."


@cache
def _map_rows() -> dict[str, Row]:
    return {row.key: row for row in read_table().rows}


def _find_row(key: str) -> Row | None:
    return _map_rows().get(key)
