"""What other tests say about the runs of a comparison, beside its verdicts.

Apart from `comparisons`, because arranging runs ten thousand times takes longer than a page may.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from experiments.comparisons import Comparison, ExperimentComparison, Group
from experiments.statistics import Pair, Sample
from experiments.statistics.normality import FEWEST
from experiments.statistics.robust import Robustness, robustness


@dataclass(frozen=True)
class Companions:
    """Of one pair, with the group that it stands in."""

    group: Group
    pair: Pair
    robustness: Robustness


def companions(found: Comparison) -> list[Companions]:
    """Return one for each pair of the comparison."""
    return [
        Companions(group, pair, robustness(pair, _judged(found, group, pair)))
        for group in found.groups
        if group.samples
        for pair in group.pairs
    ]


def worth_asking(found: Comparison) -> bool:
    """Whether any pair has enough runs for other tests to tell anything."""
    return any(
        pair.ci95 is not None
        and (pair.n_blocks if pair.paired else min(pair.n_baseline, pair.n_environment)) >= FEWEST
        for group in found.groups
        if group.samples
        for pair in group.pairs
    )


def companion_rows(found: Comparison) -> list[dict[str, Any]]:
    """Return one row a pair, for JSON; points of plots can be drawn again from the runs."""
    return [
        {
            **one.group.cell,
            **asdict(one.robustness),
            "normality": [
                {"of": checked.of, "n": checked.n, "w": checked.w, "p": checked.p}
                for checked in one.robustness.normality
            ],
            "sentence": one.robustness.sentence,
        }
        for one in companions(found)
    ]


def _judged(found: Comparison, group: Group, pair: Pair) -> list[Sample]:
    """The samples that the pair's verdict rests on: those of the look that gave it."""
    if not isinstance(found, ExperimentComparison) or not pair.look:
        return group.samples
    looks = found.stage.looks
    if pair.look.number in (0, len(looks)):
        return group.samples
    repeats = looks[pair.look.number - 1]
    return [sample for sample in group.samples if sample.repeat <= repeats]
