"""Where runs stand in charts and printed figures: their rows, heights in a row, and times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from experiments.statistics import Sample

SPREAD = 0.6
"""Of a row, over which its blocks are spread."""
SIZES = ((86400, "days"), (3600, "hours"), (60, "min"))


def list_environments(samples: Iterable[Sample], marks: Mapping[str, int]) -> list[str]:
    """Return the environments that have runs, in the order of their symbols."""
    return sorted({sample.environment for sample in samples}, key=lambda name: marks[name])


def find_block(sample: Sample) -> str:
    """Return a run's block; a run of a published table without one is a block of its own."""
    return sample.block or sample.run


def find_heights(samples: Sequence[Sample]) -> dict[str, float]:
    """Return how far below the middle of its row each block lies, by first start, else by name.

    The runs of one block are at the same height in each row.
    """
    starts: dict[str, tuple[float, str]] = {}
    for sample in samples:
        block = find_block(sample)
        start = (sample.started if sample.started is not None else 0.0, block)
        starts[block] = min(starts.get(block, start), start)
    blocks = sorted(starts, key=lambda block: starts[block])
    middle = (len(blocks) - 1) / 2
    return {block: SPREAD * (place - middle) / len(blocks) for place, block in enumerate(blocks)}


def find_time_scale(starts: Sequence[float]) -> tuple[float, int, str, str]:
    """Return the first start, the seconds of a unit of time, its name, and the start as text."""
    first, last = min(starts, default=0.0), max(starts, default=0.0)
    size, word = next(((s, w) for s, w in SIZES if last - first > 2 * s), (1, "s"))
    since = datetime.fromtimestamp(first, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return first, size, word, since
