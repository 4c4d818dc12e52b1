"""Fewer points for charts of thousands of runs: what nobody could tell apart is left out."""

from __future__ import annotations

import math
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


def thin_curve(
    x: Sequence[float], y: Sequence[float], most: int = MOST_POINTS
) -> tuple[list[float], list[float]]:
    """Return at most `most` points of a line: the lowest and the highest of each stretch.

    They stay in their order, and so does the first place of a stretch that holds no number: no
    peak and no gap is lost.
    """
    if len(y) <= most:
        return list(x), list(y)
    stretches = most // (2 if all(map(math.isfinite, y)) else 3)
    places: list[int] = []
    for stretch in range(stretches):
        inside = range(stretch * len(y) // stretches, (stretch + 1) * len(y) // stretches)
        gaps = [place for place in inside if not math.isfinite(y[place])]
        finite = sorted((place for place in inside if math.isfinite(y[place])), key=y.__getitem__)
        places += sorted({*finite[:1], *finite[-1:], *gaps[:1]})
    return [x[place] for place in places], [y[place] for place in places]
