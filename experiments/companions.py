"""What other tests say about an experiment's runs, beside the verdicts of its comparison.

Apart from `comparisons`, because arranging runs ten thousand times takes longer than a page may.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from experiments.comparisons import ExperimentComparison, Group
from experiments.stages import Stage
from experiments.statistics import Pair, Sample
from experiments.statistics.normality import FEWEST
from experiments.statistics.robust import Robustness, robustness


@dataclass(frozen=True)
class Companions:
    """Of one pair, with the group that it stands in."""

    group: Group
    pair: Pair
    robustness: Robustness


def companions(found: ExperimentComparison) -> list[Companions]:
    """Return one for each pair of the comparison."""
    return [
        Companions(group, pair, robustness(pair, _judged(found.stage, group, pair)))
        for group in found.groups
        for pair in group.pairs
    ]


def worth_asking(found: ExperimentComparison) -> bool:
    """Whether any pair has enough runs for other tests to tell anything."""
    return any(
        pair.ci95 is not None
        and (pair.n_blocks if pair.paired else min(pair.n_baseline, pair.n_environment)) >= FEWEST
        for pair in found.pairs
    )


def companion_rows(found: ExperimentComparison) -> list[dict[str, Any]]:
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


def _judged(stage: Stage, group: Group, pair: Pair) -> list[Sample]:
    """The samples that the pair's verdict rests on: those of the look that gave it."""
    if not pair.look or pair.look.number in (0, len(stage.looks)):
        return group.samples
    repeats = stage.looks[pair.look.number - 1]
    return [sample for sample in group.samples if sample.repeat <= repeats]
