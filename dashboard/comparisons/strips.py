"""All ratios of a comparison at a glance: a strip for each environment, on one scale."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.comparisons.verdict_matrix import Bar, Scale, choose_scale, make_bar
from experiments.comparisons import Comparison

MOST_INTERVALS = 24
"""Of more ratios in a strip the intervals would hide each other: the ratios alone are drawn."""


@dataclass(frozen=True)
class Strip:
    """The ratios of one environment in all configurations."""

    environment: str
    mark: int
    bars: list[Bar]

    @property
    def has_intervals(self) -> bool:
        return len(self.bars) <= MOST_INTERVALS


@dataclass(frozen=True)
class Strips:
    """Strips that share a scale."""

    scale: Scale
    rows: list[Strip]


def make_strips(comparison: Comparison) -> Strips | None:
    """Return the strips of the environments that have a ratio; None where none has."""
    scale = choose_scale(comparison.pairs, comparison.margins)
    rows = []
    for name in comparison.environments[1:]:
        pairs = [pair for pair in comparison.pairs if pair.environment == name]
        bars = [bar for bar in (make_bar(pair, scale) for pair in pairs) if bar]
        if bars:
            rows.append(Strip(name, comparison.marks[name], bars))
    return Strips(scale, rows) if rows else None
