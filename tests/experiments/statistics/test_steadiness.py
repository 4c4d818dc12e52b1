"""How unsteady runs are is compared with the run as the unit, whatever the steps look like."""

import math
from statistics import geometric_mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from experiments.statistics import Sample, compare, numbers, vectorised
from experiments.statistics.step_spread import (
    Ratio,
    RunSpread,
    compare_packed,
    compare_spreads,
    estimate_ratio,
)

TWO = ["bare", "box"]
positive = st.floats(1e-6, 1e3)
spreads = st.lists(st.tuples(positive, positive), min_size=2, max_size=6)


def runs_of(name, values, node="node1"):
    """Runs from (mean, SD) of their steps, one a block."""
    return [
        RunSpread(f"{name}{block}", str(block), name, mean, sd, node=node)
        for block, (mean, sd) in enumerate(values)
    ]


def close(found, expected):
    return found == pytest.approx(expected, rel=1e-6, abs=1e-300)


@given(spreads, st.floats(1e-3, 1e3), st.booleans())
def test_another_unit_of_time_changes_no_ratio(values, factor, paired):
    def found(scale):
        runs = [
            RunSpread(f"{name}{k}", str(k), name, scale * mean * more, scale * sd * more**2)
            for name, more in (("bare", 1.0), ("box", 1.5))
            for k, (mean, sd) in enumerate(values)
        ]
        return compare_spreads(runs, environments=TWO, paired=paired)[1]

    one, other = found(1.0), found(factor)
    assert close(other.mean_ratio.value, one.mean_ratio.value)
    assert close(other.sd_ratio.value, one.sd_ratio.value)
    assert close(one.sd_ratio.value, 2.25)


@given(spreads, spreads, st.booleans())
def test_swapping_the_two_turns_the_ratio_upside_down(ours, theirs, paired):
    bare, box = runs_of("bare", ours), runs_of("box", theirs)
    one = compare_spreads([*bare, *box], environments=TWO, paired=paired)[1].sd_ratio
    other = compare_spreads([*bare, *box], environments=TWO[::-1], paired=paired)[1].sd_ratio
    assert close(one.value * other.value, 1)
    assert (one.flaw, one.ci95 is None) == (other.flaw, other.ci95 is None)
    if one.ci95:
        assert [math.log(end) for end in one.ci95] == pytest.approx(
            [-math.log(end) for end in other.ci95[::-1]], abs=1e-6
        )


@given(spreads)
def test_the_same_runs_are_as_steady_as_themselves_without_an_interval(values):
    bare, box = runs_of("bare", values), runs_of("box", values)
    (baseline, found) = compare_spreads([*bare, *box], environments=TWO, paired=True)
    assert (found.sd_ratio.value, found.mean_ratio.value) == (1, 1)
    assert (found.sd_ratio.ci95, found.sd_ratio.flaw) == (None, "identical values")
    assert baseline.sd_ratio is None
    assert close(baseline.sd, geometric_mean([sd for _, sd in values]))


def test_the_ratio_is_the_one_that_a_comparison_of_the_metric_would_give():
    draw = np.random.default_rng(3)
    samples = [
        Sample(f"{name}{block}", str(block), name, float(draw.lognormal(-5, 0.2)))
        for block in range(6)
        for name in TWO
    ]
    arms = [[sample for sample in samples if sample.environment == name] for name in TWO]
    for paired in (True, False):
        (pair,) = compare(
            samples, baseline="bare", environments=["box"], margin=0.02, better="lower",
            paired=paired, unit="s",
        )  # fmt: skip
        found = estimate_ratio(*arms, paired=paired)
        assert (found.value, found.ci95) == (pair.ratio, pair.ci95)


def test_a_block_in_which_one_is_missing_is_left_out_and_none_at_all_is_no_ratio():
    bare, box = runs_of("bare", [(1, 0.1), (1, 0.2), (9, 9)]), runs_of("box", [(1, 0.2), (1, 0.4)])
    (_, found) = compare_spreads([*bare, *box], environments=TWO, paired=True)
    assert close(found.sd_ratio.value, 2)
    (alone,) = compare_spreads(box, environments=TWO, paired=True)
    assert (alone.environment, alone.sd_ratio) == ("box", None)
    with pytest.raises(ValueError, match="bare0"):
        compare_spreads([*runs_of("bare", [(1, 0.0)]), *box], environments=TWO, paired=False)


def test_packed_over_alone_is_a_sentence_for_each_interval():
    alone = runs_of("bare", [(1.00, 0.010), (1.01, 0.012), (0.99, 0.011)])
    together = runs_of("bare", [(1.01, 0.024), (1.02, 0.025), (1.00, 0.026)])
    (found,) = compare_packed(alone, together, environments=TWO, instances=4)
    assert found.sentence == (
        f"Four at once on one node: steps are {found.mean_ratio.text} times as long (95 % CI; 3 "
        f"runs packed, 3 alone). They vary {found.sd_ratio.text} times as much (95 % CI; SD "
        "within runs)."
    )
    assert found.mean_ratio.text == "1.01 [0.99, 1.03]"
    low, high = found.sd_ratio.ci95
    assert low < 2.28 < high
    elsewhere = runs_of("bare", [(1.0, 0.02), (1.0, 0.03)], node="node2")
    (found,) = compare_packed(alone, elsewhere, environments=TWO, instances=16)
    assert found.sentence.startswith("16 at once")
    assert found.sentence.endswith("No node ran both, so that this may be the nodes.")


def test_single_runs_have_ratios_and_no_interval():
    (found,) = compare_packed(
        runs_of("bare", [(1.0, 0.01)]), runs_of("bare", [(1.5, 0.02)]), environments=TWO,
        instances=2,
    )  # fmt: skip
    assert "steps are 1.50 times as long (1 run packed, 1 alone; no " in found.sentence
    assert found.sentence.endswith("They vary 2.00 times as much (SD within runs).")
    assert "no interval: a single run cannot show how much runs vary" in found.sentence


@pytest.mark.parametrize(
    ("value", "interval", "text"),
    [
        (2.31, (1.93, 2.77), "2.3 [1.9, 2.8]"),
        (1.012, (0.992, 1.0325), "1.01 [0.99, 1.03]"),
        (1.5, None, "1.50"),
        (None, None, "–"),
        (3.0, (0.1, 90.0), "3.0 [0.1, 90.0]"),
    ],
)
def test_a_factor_has_as_many_digits_as_its_interval_knows(value, interval, text):
    assert numbers.factor(value, interval) == text


STEPS, EXPERIMENTS = 200, 1500


@given(st.floats(1e-9, 1e9), st.floats(1.01, 1e9))
def test_neither_a_ratio_nor_the_ends_of_its_interval_are_printed_as_zero(value, wide):
    interval = (value / wide, value * wide)
    told = numbers.factor(value, interval).replace("[", "").replace("]", "").replace(",", "")
    assert all(float(text) > 0 for text in told.split())
    assert Ratio(value, interval).is_determined == (wide < 10)


def normal(rng, shape):
    return rng.normal(1, 0.02, shape)


def stragglers(rng, shape):
    return rng.lognormal(0, 0.02, shape) + (rng.random(shape) < 0.02) * rng.exponential(0.5, shape)


def correlated(rng, shape):
    noise = rng.normal(0, 1, shape)
    for step in range(1, shape[-1]):
        noise[..., step] += 0.8 * noise[..., step - 1]
    return 1 + 0.01 * noise


def unlike(rng, shape):
    """Some runs are more restless than others, with the same environment."""
    return 1 + rng.lognormal(-4, 0.3, (*shape[:-1], 1)) * rng.normal(0, 1, shape)


KINDS = (normal, stragglers, correlated, unlike)


@pytest.mark.parametrize("steps", KINDS, ids=lambda kind: kind.__name__)
def test_the_interval_covers_the_true_ratio_of_sds_whatever_the_steps_are(steps):
    rng = np.random.default_rng(20261122)
    covered = {}
    for n in (3, 5, 10):
        logs = [np.log(steps(rng, (EXPERIMENTS, n, STEPS)).std(axis=-1, ddof=1)) for _ in TWO]
        for name, estimate in (
            ("paired", vectorised.estimate_paired),
            ("unpaired", vectorised.estimate_unpaired),
        ):
            covered[n, name] = float(estimate(*logs).times(2).covers(2).mean())
    assert all(0.93 <= share <= 0.985 for share in covered.values()), covered


@pytest.mark.parametrize("steps", KINDS[1:], ids=lambda kind: kind.__name__)
def test_pooled_steps_would_be_far_too_sure_of_themselves(steps):
    """The negative control: an F interval of two variances, each of n x 200 pooled steps."""
    rng = np.random.default_rng(20261122)
    n = 5
    variances = [
        steps(rng, (EXPERIMENTS, n, STEPS)).reshape(EXPERIMENTS, -1).var(axis=1, ddof=1)
        for _ in TWO
    ]
    low, high = stats.f.ppf([0.025, 0.975], n * STEPS - 1, n * STEPS - 1)
    inside = (low <= variances[1] / variances[0]) & (variances[1] / variances[0] <= high)
    assert inside.mean() < 0.85
