"""Fewer points for charts of thousands of runs: what nobody could tell apart is left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from experiments.statistics import Sample

MOST_POINTS = 500
"""Of a chart. Medians, counts and axes are of all runs, and files have them all."""
Thing = TypeVar("Thing")


def thin_samples(samples: Sequence[Sample], most: int = MOST_POINTS) -> list[Sample]:
    """Return at most about `most` runs in their order: of each environment as large a share.

    The fastest and the slowest of each environment stay, so that no extreme is hidden.
    """
    if len(samples) <= most:
        return list(samples)
    by_environment: dict[str, list[int]] = {}
    for index, sample in enumerate(samples):
        by_environment.setdefault(sample.environment, []).append(index)
    kept: set[int] = set()
    for indices in by_environment.values():
        share = max(most * len(indices) // len(samples) - 2, 1)
        kept.update(spread_evenly(indices, share))
        kept.add(min(indices, key=lambda index: samples[index].value))
        kept.add(max(indices, key=lambda index: samples[index].value))
    return [samples[index] for index in sorted(kept)]


def spread_evenly(things: Sequence[Thing], most: int) -> list[Thing]:
    """Return at most `most` things, the first one and others at equal distances."""
    if len(things) <= most:
        return list(things)
    return [things[place * len(things) // most] for place in range(most)]
