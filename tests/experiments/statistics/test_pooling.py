"""Pooled ratios: the arithmetic is that of metafor and statsmodels, and refusals are plain."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from statsmodels.stats.meta_analysis import combine_effects

from experiments.statistics import Pair, Stamp, Verdict
from experiments.statistics.extended import Extended
from experiments.statistics.pooling import Pooled, estimate_random_effects, pool_environments
from experiments.statistics.values import InterimAnalysis
from tests.experiments.statistics.test_across_configurations import on_nodes

BCG = (
    (4, 119, 11, 128),
    (6, 300, 29, 274),
    (3, 228, 11, 209),
    (62, 13536, 248, 12619),
    (33, 5036, 47, 5761),
    (180, 1361, 372, 1079),
    (8, 2537, 10, 619),
    (505, 87886, 499, 87892),
    (29, 7470, 45, 7232),
    (17, 1699, 65, 1600),
    (186, 50448, 141, 27197),
    (5, 2493, 3, 2338),
    (27, 16886, 29, 17825),
)
"""Thirteen trials of the BCG vaccine (Colditz et al. 1994; `dat.bcg` in R's metafor): tuberculosis
yes and no among the vaccinated, then among the others."""


def log_risk_ratios() -> tuple[list[float], list[float]]:
    logs, errors = [], []
    for ill, well, other_ill, other_well in BCG:
        total, others = ill + well, other_ill + other_well
        logs.append(math.log(ill / total / (other_ill / others)))
        errors.append(math.sqrt(1 / ill - 1 / total + 1 / other_ill - 1 / others))
    return logs, errors


def test_the_trials_of_the_bcg_vaccine() -> None:
    """Empirical Bayes, 0.318 in metafor's documents, is Paule and Mandel's estimate."""
    logs, errors = log_risk_ratios()
    assert (logs[0], errors[0] ** 2) == pytest.approx((-0.8893, 0.3256), abs=5e-5)
    pooled = estimate_random_effects(logs, errors)
    assert pooled.tau2 == pytest.approx(0.3181, abs=2e-4)
    assert pooled.mean == pytest.approx(-0.7150, abs=1e-4)
    assert pooled.se == pytest.approx(0.1809, abs=2e-4)
    low, high = pooled.predict(0.95)
    assert low < -0.7150 - 2.2 * 0.564 < high
    assert math.exp(high) > 1.5, "one more trial may go the other way"


effects = st.lists(st.tuples(st.floats(-1, 1), st.floats(1e-3, 1)), min_size=3, max_size=15)


@given(effects)
def test_it_is_what_statsmodels_computes(studies: list[tuple[float, float]]) -> None:
    values, errors = map(list, zip(*studies, strict=True))
    pooled = estimate_random_effects(values, errors)
    weights = [1 / (error**2 + pooled.tau2) for error in errors]
    squares = sum(w * (y - pooled.mean) ** 2 for w, y in zip(weights, values, strict=True))
    if pooled.tau2:
        assert squares == pytest.approx(len(values) - 1, rel=1e-6), "what defines tau2"
    else:
        assert squares <= (len(values) - 1) * (1 + 1e-6)
    known: Any = combine_effects(
        np.array(values), np.array(errors) ** 2, method_re="iterated", use_t=True, atol=1e-12
    )
    assume(known.tau2 > 1e-4)  # it gives up where its first steps go below 0
    assert pooled.tau2 == pytest.approx(known.tau2, rel=1e-3, abs=1e-6)
    assert pooled.mean == pytest.approx(known.mean_effect_re, abs=1e-4)
    assert pooled.se == pytest.approx(known.sd_eff_w_re_hksj, rel=1e-3)


@given(effects, st.floats(-5, 5), st.floats(1e-6, 1e6))
def test_shifted_and_scaled_effects_shift_and_scale_the_mean(
    studies: list[tuple[float, float]], shift: float, scale: float
) -> None:
    values, errors = map(list, zip(*studies, strict=True))
    pooled = estimate_random_effects(values, errors)
    moved = estimate_random_effects(
        [scale * value + shift for value in values], [scale * error for error in errors]
    )
    near = {"rel": 1e-3, "abs": 1e-3 * scale + 1e-6}
    assert moved.mean == pytest.approx(scale * pooled.mean + shift, **near)
    assert moved.se == pytest.approx(scale * pooled.se, **near)


@given(effects)
def test_the_interval_is_never_narrower_than_of_known_errors(
    studies: list[tuple[float, float]],
) -> None:
    values, errors = map(list, zip(*studies, strict=True))
    pooled = estimate_random_effects(values, errors)
    assert pooled.se >= 0.999 / math.sqrt(sum(1 / error**2 for error in errors))
    assert min(values) - 1e-9 <= pooled.mean <= max(values) + 1e-9
    low, high = pooled.interval(0.9)
    wide_low, wide_high = pooled.predict(0.9)
    assert wide_low <= low <= pooled.mean <= high <= wide_high


@pytest.mark.parametrize("errors", [[1e-150] * 4, [1e-9, 1.0, 1.0, 1e-9], [1e100] * 4])
def test_absurd_errors_end(errors: list[float]) -> None:
    pooled = estimate_random_effects([0.0, 0.5, -0.25, 0.1], errors)
    assert all(math.isfinite(number) for number in (pooled.mean, pooled.se, pooled.tau2))


def make_pair(log: float, *, environment: str = "podman", **columns: Any) -> Pair:
    pair = Pair(
        baseline="bare",
        environment=environment,
        unit="s",
        better="lower",
        margin=0.02,
        paired=True,
        n_blocks=8,
        ratio=math.exp(log),
        log_se=0.004,
        df=7.0,
        ci95=(0.9, 1.1),
        ci90=(0.95, 1.05),
        verdict=Verdict.INCONCLUSIVE,
    )
    return replace(pair, **columns)


ALIKE = (0.001, 0.004, -0.002, 0.003, 0.006)


def test_five_configurations_have_a_mean_and_a_prediction() -> None:
    (pooled,) = pool_environments([make_pair(log) for log in ALIKE])
    assert (pooled.why_not, pooled.sentence) == ("", "")
    assert (pooled.configurations, pooled.blocks, pooled.level) == (5, 40, 0.9)
    assert pooled.ratio == pytest.approx(math.exp(sum(ALIKE) / 5))
    assert pooled.tau == 0, "they differ less than their errors"
    half = 2.131847 * 0.004 / math.sqrt(5)  # t of 95 % with 4 degrees of freedom
    assert pooled.interval == pytest.approx(
        (math.exp(0.0024 - half), math.exp(0.0024 + half)), rel=1e-6
    )
    assert pooled.prediction
    assert pooled.interval
    assert pooled.prediction[0] < pooled.interval[0]


def refusal(pairs: list[Pair], metrics: int = 1) -> str:
    (pooled,) = pool_environments(pairs, metrics)
    assert (pooled.ratio is None) is bool(pooled.why_not)
    assert (pooled.interval, pooled.prediction) == (None, None) or not pooled.why_not
    return pooled.sentence


def test_when_a_mean_is_not_honest_it_says_why() -> None:
    pairs = [make_pair(log) for log in ALIKE]
    assert refusal(pairs[:2]) == (
        "podman is not pooled: 2 configurations do not tell how much configurations differ."
    )
    assert refusal(pairs[:3]) == ""
    assert "one metric and one margin" in refusal(pairs, 2)
    without = replace(pairs[0], ratio=None, ci95=None, log_se=None, df=None)
    assert "1 of 5 configurations has no interval" in refusal([without, *pairs[1:]])
    few = [replace(pair, stamps=(Stamp.PROVISIONAL,), reasons=("",)) for pair in pairs]
    assert "5 of 5 configurations have too few runs" in refusal(few)
    for stamp in (Stamp.CONFOUNDED, Stamp.TRAINED_DIFFERENTLY, Stamp.REJECTIONS_DIFFER):
        biased = replace(pairs[0], stamps=(stamp,), reasons=("",))
        assert f"stamped {stamp}" in refusal([biased, *pairs[1:]])
    early = replace(pairs[0], interim_analysis=InterimAnalysis(number=1, of=1, alpha=0.05))
    assert refusal([early, *pairs[1:]]) == ""
    early = replace(pairs[0], interim_analysis=InterimAnalysis(number=1, of=2, alpha=0.0294))
    assert "one metric and one margin" in refusal([early, *pairs[1:]])


def test_analyses_that_stopped_early_are_not_pooled() -> None:
    first, last = (InterimAnalysis(number=n, of=2, alpha=0.0294) for n in (1, 2))
    pairs = [make_pair(log, interim_analysis=last) for log in ALIKE]
    (pooled,) = pool_environments(pairs)
    assert pooled.level == pytest.approx(1 - 2 * 0.0294)
    pairs[0] = replace(pairs[0], interim_analysis=first)
    assert "a verdict from an interim analysis" in refusal(pairs)


def test_ratios_after_an_extension_are_not_pooled() -> None:
    """Whether there are further blocks has depended on the ratio."""
    pairs = [make_pair(log) for log in ALIKE]
    pairs[0] = replace(pairs[0], extension=Extended(planned=5, added=5, level=0.0294))
    assert "1 of 5 configurations has further blocks that were added" in refusal(pairs)


def test_ratios_that_plainly_differ_have_no_mean() -> None:
    assert "its ratios differ, from 0.6" in refusal([make_pair(log) for log in (0.4, -0.5, 0.0)])


def test_one_configuration_has_nothing_to_pool() -> None:
    assert pool_environments([]) == []
    assert pool_environments([make_pair(0.0), make_pair(0.0, environment="udocker")]) == []


def test_each_environment_is_pooled_alone() -> None:
    pairs = [
        make_pair(log + shift, environment=name)
        for log in ALIKE
        for shift, name in ((0.0, "podman"), (0.03, "udocker"))
    ]
    first, second = pool_environments(pairs)
    assert isinstance(first, Pooled)
    assert first.ratio
    assert second.ratio == pytest.approx(first.ratio * math.exp(0.03))


def test_verdicts_on_a_partition_from_the_same_nodes_are_not_pooled() -> None:
    """What a node adds is in the errors of all of them, so that they are not independent."""
    pairs = [on_nodes(seed, of_node=0.002) for seed in (1, 2, 3)]  # type: ignore[no-untyped-call]
    (pooled,) = pool_environments(pairs)
    assert "from the same nodes" in pooled.why_not
    apart = [on_nodes(seed, of_node=0.002, first=6 * seed) for seed in (1, 2, 3)]  # type: ignore[no-untyped-call]
    (pooled,) = pool_environments(apart)
    assert pooled.why_not == ""
