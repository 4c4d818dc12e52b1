"""The runs on which a shown verdict rests: those alone that an interim analysis has judged."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.comparisons.comparison import Comparison, Group
from experiments.comparisons.experiment_comparison import ExperimentComparison
from experiments.comparisons.kept_rows import pick_rows
from experiments.statistics import Pair, Sample
from experiments.statistics.arms import Arms


def list_judged_samples(comparison: Comparison, group: Group, pair: Pair) -> Sequence[Sample]:
    """Return the samples of the interim analysis that gave the pair its verdict."""
    if not isinstance(comparison, ExperimentComparison) or not pair.interim_analysis:
        return group.samples
    after_repeats = comparison.stage.after_repeats
    if pair.interim_analysis.number in (0, len(after_repeats)):
        return group.samples
    repeats = after_repeats[pair.interim_analysis.number - 1]
    return [sample for sample in group.samples if sample.repeat <= repeats]


def list_compared_samples(comparison: Comparison, group: Group, pair: Pair) -> list[Sample]:
    """Return the samples of both environments from which the pair was computed.

    Fewer than were judged where blocks are compared and one of the two has no run in a block.
    """
    samples = list_judged_samples(comparison, group, pair)
    arms = Arms.of(
        pick_rows(samples, "environment", pair.baseline),
        pick_rows(samples, "environment", pair.environment),
        paired=pair.paired,
        estimand=pair.estimand,
    )
    return [*arms.baseline, *arms.environment]


def list_compared_runs(comparison: Comparison, group: Group, environment: str = "") -> set[str]:
    """Return the runs from which the pairs of a group were computed, or one environment's pair."""
    return {
        sample.run
        for pair in group.pairs
        if not environment or pair.environment == environment
        for sample in list_compared_samples(comparison, group, pair)
    }
