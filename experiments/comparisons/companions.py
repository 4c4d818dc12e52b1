"""Results of other tests on the runs of a comparison, shown beside its verdicts.

They are computed apart from the comparison because ten thousand permutations of its runs take
longer than a page may.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from experiments.comparisons import Comparison, Group
from experiments.comparisons.judged_samples import list_judged_samples
from experiments.statistics import Pair
from experiments.statistics.normality import FEWEST
from experiments.statistics.robust import (
    Robustness,
    compute_robustness,
    compute_robustness_of_means,
)


@dataclass(frozen=True)
class Companions:
    """The other tests of one pair, with the pair's group."""

    group: Group
    pair: Pair
    robustness: Robustness


def compute_companions(comparison: Comparison) -> list[Companions]:
    """Return the other tests of each pair: many of single runs, one of published means."""
    return [
        Companions(
            group,
            pair,
            compute_robustness(pair, list_judged_samples(comparison, group, pair))
            if group.samples
            else compute_robustness_of_means(pair),
        )
        for group in comparison.groups
        for pair in group.pairs
    ]


def is_worth_asking(comparison: Comparison) -> bool:
    """Return whether any pair has enough runs, or published means, for the other tests."""
    return any(
        pair.ci95 is not None and _has_enough(group, pair)
        for group in comparison.groups
        for pair in group.pairs
    )


def has_normal_quantiles(comparison: Comparison) -> bool:
    """Return whether any pair has enough runs for normal quantiles; published means have none."""
    return any(
        pair.ci95 is not None and pair.count_to_infer >= FEWEST
        for group in comparison.groups
        if group.samples
        for pair in group.pairs
    )


def _has_enough(group: Group, pair: Pair) -> bool:
    if group.samples:
        return pair.count_to_infer >= FEWEST
    return min(pair.n_baseline, pair.n_environment) >= 2


def list_companion_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return one row for each pair, for JSON, without the points of plots: the runs have these."""
    return [
        {
            **companion.group.configuration,
            **asdict(companion.robustness),
            "normality": [
                {"of": checked.of, "n": checked.n, "w": checked.w, "p": checked.p}
                for checked in companion.robustness.normality
            ],
            "sentence": companion.robustness.sentence,
        }
        for companion in compute_companions(comparison)
    ]
