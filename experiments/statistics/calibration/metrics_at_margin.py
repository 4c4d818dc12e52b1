"""Experiments with several decisive metrics, which one cause may move together.

The log-ratios of a block are normal with one correlation between all metrics. Verdicts and what the
plan judges are by the rules that comparisons use.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.statistics.metric_rules import MetricsRule, adjust_in_order, list_judged
from experiments.statistics.multiple_comparisons import adjust_by_holm
from experiments.statistics.values import ALPHA, Verdict
from experiments.statistics.vectorised import Array, Estimates, estimate_paired

SD = 0.01
CORRELATIONS = (0.0, 0.8, -0.4)
"""Between any two metrics; three can have no smaller one than -0.5."""
REPEATS = (5, 10, 20)
CERTAIN = 0.001
"""The standard deviation of metrics that are the same, and are shown to be nearly always."""
Truth = tuple[float, float]
"""Of one metric: the true ratio, and the standard deviation of its log-ratios."""


@dataclass(frozen=True)
class FalseShares:
    """The shares of experiments with a false EQUIVALENT, by the case."""

    of_all: dict[str, float]
    """All metrics together are called equivalent, although one is at its margin."""
    in_order: dict[str, float]
    """Any metric at its margin is judged in the fixed order and called equivalent."""
    one_by_one: dict[str, float]
    """A control: any is, if each is judged for itself."""
    among_many: dict[str, float]
    """The same of several comparisons in a fixed order, after the correction."""
    among_many_by_metric: dict[str, float]
    """A control: with Holm's correction for each metric on its own."""


def simulate(rng: Any, data_sets: int, margin: float) -> FalseShares:
    """Simulate metrics of which some are at their margin, and the others the same."""
    of_all, in_order = {}, {}
    for name, truths, correlation, repeats in _list_cases(margin):
        shown = [
            verdicts == Verdict.EQUIVALENT
            for verdicts in _decide(rng, data_sets, repeats, truths, correlation, margin)
        ]
        of_all[name] = float(np.mean(np.logical_and.reduce(shown)))
        in_order[name] = _share_of_false(MetricsRule.IN_ORDER, shown, truths)
    at_margin = [(1 + margin, SD)] * 3
    shown = [
        verdicts == Verdict.EQUIVALENT
        for verdicts in _decide(rng, data_sets, 10, at_margin, 0.0, margin)
    ]
    one_by_one = _share_of_false(MetricsRule.ALL, shown, at_margin)
    among_many, by_metric = _simulate_many(rng, data_sets, margin)
    return FalseShares(
        of_all=of_all,
        in_order=in_order,
        one_by_one={"3 metrics, all at the margin, n = 10": one_by_one},
        among_many=among_many,
        among_many_by_metric=by_metric,
    )


def _list_cases(margin: float) -> Iterator[tuple[str, list[Truth], float, int]]:
    """Yield a name, the truths, the correlation and the repeats of each simulated experiment.

    The last metric is at its margin; those before it are certain, as noisy, or there as well.
    """
    certain, noisy, at_margin = (1.0, CERTAIN), (1.0, SD), (1 + margin, SD)
    for repeats in REPEATS:
        for correlation in CORRELATIONS:
            for name, others in (
                ("1 certain", [certain]),
                ("2 certain", [certain, certain]),
                ("1 as noisy", [noisy]),
                ("1 there as well", [at_margin]),
                ("1 certain, 1 there as well", [certain, at_margin]),
            ):
                case = f"{name}, correlation {correlation:g}, n = {repeats}"
                yield case, [*others, at_margin], correlation, repeats


def _decide(
    rng: Any, data_sets: int, repeats: int, truths: Sequence[Truth], correlation: float, margin: Any
) -> Iterator[Array]:
    """Yield the verdicts on each metric of experiments whose metrics have one correlation."""
    for estimates in _estimate(rng, data_sets, repeats, truths, correlation):
        yield estimates.verdicts(margin)


def _estimate(
    rng: Any, data_sets: int, repeats: int, truths: Sequence[Truth], correlation: float
) -> Iterator[Estimates]:
    covariance = np.full((len(truths), len(truths)), correlation)
    np.fill_diagonal(covariance, 1.0)
    noise = rng.standard_normal((data_sets, repeats, len(truths)))
    noise = noise @ np.linalg.cholesky(covariance).T
    for i, (ratio, sd) in enumerate(truths):
        log_ratios = np.log(ratio) + sd * noise[:, :, i]
        yield estimate_paired(np.zeros_like(log_ratios), log_ratios)


def _share_of_false(rule: MetricsRule, shown: Sequence[Array], truths: Sequence[Truth]) -> float:
    """Return how often a metric at its margin is judged and called equivalent."""
    false: Array = False
    for is_judged, is_shown, (ratio, _) in zip(
        list_judged(rule, shown), shown, truths, strict=True
    ):
        if ratio != 1:
            false = false | (is_judged & is_shown)
    return float(np.mean(false))


def _simulate_many(
    rng: Any, data_sets: int, margin: float
) -> tuple[dict[str, float], dict[str, float]]:
    """Return shares of three comparisons with two metrics each, of which two have a false one.

    The first is at its margin with the first metric, the second with the second, the third with
    none.
    """
    certain, at_margin = (1.0, CERTAIN), (1 + margin, SD)
    rows = ([at_margin, certain], [certain, at_margin], [certain, certain])
    false = {0: 0, 1: 1}
    """The comparison -> its metric at the margin."""
    in_order, by_metric = {}, {}
    for correlation in CORRELATIONS[:2]:
        ps = np.stack(
            [
                [
                    each.p_equivalence(margin)
                    for each in _estimate(rng, data_sets, 10, row, correlation)
                ]
                for row in rows
            ]
        )
        hits = [0, 0]
        for number in range(data_sets):
            known = ps[:, :, number].tolist()
            columns = [adjust_by_holm([row[k] for row in known]) for k in range(2)]
            each_alone = [list(row) for row in zip(*columns, strict=True)]
            for i, adjusted in enumerate((adjust_in_order(known), each_alone)):
                hits[i] += any((adjusted[row][k] or 0) < ALPHA for row, k in false.items())
        name = f"3 comparisons of 2 metrics, correlation {correlation:g}"
        in_order[name], by_metric[name] = (count / data_sets for count in hits)
    return in_order, by_metric
