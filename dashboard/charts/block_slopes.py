"""Blocks as pairs of values, from the baseline to an environment: what slope plots draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from dashboard.charts.run_places import list_environments
from dashboard.charts.thinning import MOST_POINTS, spread_evenly
from experiments.statistics import Sample


@dataclass(frozen=True)
class Slopes:
    """The whole blocks of one environment; several runs in a block are their geometric mean."""

    baseline: str
    environment: str
    blocks: Sequence[str]
    before: Sequence[float]
    """Of the baseline, block by block."""
    after: Sequence[float]
    baseline_runs: Sequence[str]
    """The first run of each block."""
    runs: Sequence[str]


def list_slopes(
    samples: Sequence[Sample], marks: Mapping[str, int], most: int = MOST_POINTS
) -> list[Slopes]:
    """Return the blocks of each environment, together about `most` points; incomplete ones miss."""
    arms: dict[str, dict[str, list[Sample]]] = {}
    for sample in samples:
        arms.setdefault(sample.environment, {}).setdefault(sample.block, []).append(sample)
    names = list_environments(samples, marks)
    baseline = next((name for name in names if marks[name] == 0), "")
    others = [name for name in names if name != baseline and baseline]
    slopes = []
    for name in others:
        blocks = [block for block in arms[baseline] if block in arms[name]]
        blocks = spread_evenly(blocks, max(most // (2 * len(others)), 1))
        before, after = (
            [geometric_mean(s.value for s in arms[arm][block]) for block in blocks]
            for arm in (baseline, name)
        )
        first = [[arms[arm][block][0].run for block in blocks] for arm in (baseline, name)]
        slopes.append(Slopes(baseline, name, blocks, before, after, *first))
    return slopes
