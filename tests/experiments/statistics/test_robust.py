"""The companions of a verdict are what scipy says they are, and never decide."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from experiments.statistics import Sample, Verdict, compare, ranks
from experiments.statistics.normality import check_normality
from experiments.statistics.robust import compare_trimmed_means, compute_bca, compute_robustness

close = {"rel": 1e-9, "abs": 1e-12}


def data_set(seed, low=2, high=12):
    draw = np.random.default_rng(seed)
    n_b, n_e = draw.integers(low, high, 2)
    return draw.normal(0, 1, n_b).tolist(), draw.normal(0.7, 1.5, n_e).tolist()


def test_mann_whitney_without_ties_is_scipys_exact_one():
    for seed in range(60):
        baseline, environment = data_set(seed, high=25)
        p, how = ranks.compute_mann_whitney(baseline, environment)
        expected = stats.mannwhitneyu(environment, baseline, method="exact").pvalue
        assert (how, p) == (ranks.EXACT, pytest.approx(expected, **close))


def test_three_against_three_cannot_say_more_than_one_in_ten():
    assert ranks.compute_mann_whitney([1, 2, 3], [4, 5, 6])[0] == pytest.approx(0.1)
    assert ranks.compute_permutation([1, 2, 3], [4, 5, 6])[0] == pytest.approx(0.1)


few = st.lists(st.integers(0, 4), min_size=2, max_size=4)


def by_hand(baseline, environment):
    """Every way to label the values, one by one."""
    pooled, n_b = [*baseline, *environment], len(baseline)

    def apart(places):
        chosen = [pooled[i] for i in places]
        rest = [pooled[i] for i in range(len(pooled)) if i not in places]
        return abs(np.mean(chosen) - np.mean(rest))

    ways = [apart(places) for places in combinations(range(len(pooled)), n_b)]
    return np.mean([way >= ways[0] - 1e-12 for way in ways])


@given(few, few)
def test_small_samples_are_rearranged_in_every_way(baseline, environment):
    assert ranks.compute_permutation(baseline, environment)[0] == pytest.approx(
        by_hand(baseline, environment)
    )
    middle = stats.rankdata([*baseline, *environment])
    if len(set(middle)) < len(middle):
        n_b = len(baseline)
        assert ranks.compute_mann_whitney(baseline, environment) == (
            pytest.approx(by_hand(middle[:n_b], middle[n_b:])),
            ranks.EXACT,
        )


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=6))
def test_signs_are_flipped_in_every_way(differences):
    sums = [abs(np.dot(signs, differences)) for signs in product((1, -1), repeat=len(differences))]
    expected = np.mean([total >= abs(sum(differences)) for total in sums])
    assert ranks.sign_flips(differences)[0] == pytest.approx(expected)


def test_signed_ranks_without_ties_are_scipys_exact_ones():
    for seed in range(60):
        differences = [*data_set(seed, high=25)[1], 0.0]
        p, how = ranks.compute_signed_rank(differences)
        expected = stats.wilcoxon(differences[:-1], method="exact").pvalue
        assert (how, p) == (ranks.EXACT, pytest.approx(expected, **close))
    assert ranks.compute_signed_rank([1, 2, 3, 4, 5])[0] == pytest.approx(0.0625)
    assert ranks.compute_signed_rank([0.0, 0.0]) == (1.0, ranks.EXACT)


def test_signed_ranks_with_ties_are_those_of_all_signs():
    differences = [1, 1, -1, 2, 2, 3, -3, 4]
    middle = stats.rankdata(np.abs(differences)) * np.sign(differences)
    assert ranks.compute_signed_rank(differences)[0] == ranks.sign_flips(middle.tolist())[0]


def test_large_samples_are_rearranged_at_random_the_same_way_each_time():
    draw = np.random.default_rng(3)
    baseline, environment = draw.normal(0, 1, 40).tolist(), draw.normal(0.5, 1, 40).tolist()
    p, how = ranks.compute_permutation(baseline, environment)
    assert ranks.compute_permutation(baseline, environment) == (p, how)
    assert how == "9,999 random arrangements"
    # Normal values: a permutation of means is then nearly the t test.
    assert p == pytest.approx(stats.ttest_ind(baseline, environment).pvalue, abs=0.01)
    p, how = ranks.sign_flips(environment)
    assert p == pytest.approx(stats.ttest_1samp(environment, 0).pvalue, abs=0.01)
    rounded = [round(value, 1) for value in baseline], [round(v, 1) for v in environment]
    p, how = ranks.compute_mann_whitney(*rounded)
    expected = stats.mannwhitneyu(*rounded, method="asymptotic").pvalue
    assert (how, p) == (ranks.RANDOM, pytest.approx(expected, abs=0.01))


def test_trimmed_means_are_yuens_as_scipy_has_them():
    for seed in range(60):
        baseline, environment = data_set(seed, low=5, high=40)
        found = compare_trimmed_means([baseline, environment])
        test = stats.ttest_ind(environment, baseline, equal_var=False, trim=0.2)
        assert found.p_difference == pytest.approx(test.pvalue, **close)
        assert found.df == pytest.approx(test.df)
        interval = test.confidence_interval(0.95)
        assert found.log_interval(0.95) == pytest.approx((interval.low, interval.high), **close)
        one = compare_trimmed_means([environment])
        cut = int(0.2 * len(environment)) / len(environment)
        expected = stats.mstats.trimmed_mean_ci(environment, limits=(cut, cut), alpha=0.05)
        assert one.log_interval(0.95) == pytest.approx(tuple(expected), **close)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bca_is_that_of_scipy(seed):
    draw = np.random.default_rng(seed)
    baseline, environment = draw.exponential(1, 25), draw.exponential(1.5, 30)
    cases = (
        ([environment], [environment], lambda x, axis: x.mean(axis=axis)),
        (
            [baseline, environment],
            [baseline, environment],
            lambda b, e, axis: e.mean(axis=axis) - b.mean(axis=axis),
        ),
    )
    for groups, samples, statistic in cases:
        expected = stats.bootstrap(
            samples, statistic, n_resamples=50_000, method="BCa", rng=7
        ).confidence_interval
        room = 0.03 * (expected.high - expected.low)  # the resamples are not the same
        interval, _ = compute_bca(groups, 0.95)
        assert interval == pytest.approx((expected.low, expected.high), abs=room)
        assert compute_bca(groups, 0.95) == compute_bca(groups, 0.95)


@pytest.mark.parametrize("n", [20, 200])
def test_the_digits_of_bca_that_are_shown_are_not_those_of_the_seed(n):
    """Another seed moves a bound by one unit of the last digit at most, whatever the data."""
    moved = []
    for data in range(4):
        groups = [lognormal(data, n), lognormal(100 + data, n, 0.05)]
        groups = [np.log(values).tolist() for values in groups]
        _, found = both(*map(np.exp, groups), paired=False)
        decimals = found.companions[-1].decimals
        assert decimals >= 2
        for seed in range(4):
            interval, _ = compute_bca(groups, 0.95, seed=seed)
            shown = zip(interval, found.companions[-1].interval, strict=True)
            for again, first in shown:
                moved.append(round((np.exp(again) - first) * 10**decimals, 3))
    assert max(map(abs, moved)) < 1
    assert np.mean(np.abs(moved) > 0.5) < 0.05


@pytest.mark.parametrize("data", [2, 3, 4])
def test_the_random_error_of_bca_covers_what_another_seed_moves(data):
    """It decides how many digits are shown: too small, and they would be those of the seed."""
    draw = np.random.default_rng(data)
    groups = [draw.exponential(1, 25).tolist(), draw.exponential(1.5, 30).tolist()]
    _, error = compute_bca(groups, 0.95, resamples=2000)
    ends = [compute_bca(groups, 0.95, resamples=2000, seed=seed)[0] for seed in range(60)]
    moved = np.std(ends, axis=0, ddof=1).max()
    assert moved < error < 2 * moved


def test_the_order_of_the_runs_moves_no_companion():
    baseline, environment = lognormal(1, 24), lognormal(2, 24, 0.01)
    _, found = both(baseline, environment, paired=False)
    _, turned = both(baseline[::-1], environment[::-1], paired=False)
    assert turned.companions == found.companions


def test_all_signs_are_counted_up_to_twenty_differences():
    differences = np.random.default_rng(5).normal(0.3, 1, 20).tolist()
    p, how = ranks.sign_flips(differences)
    assert how == ranks.EXACT
    halves = [
        np.array(list(product((1, -1), repeat=10))) @ half
        for half in np.split(np.array(differences), 2)
    ]
    sums = np.abs(halves[0][:, None] + halves[1][None, :])
    assert sums.size == 2**20
    assert p == pytest.approx((sums >= abs(sum(differences)) - 1e-12).mean(), abs=1e-12)
    assert ranks.sign_flips([*differences, 0.5])[1] == ranks.RANDOM


def test_shapiro_is_scipys():
    for seed in range(60):
        draw = np.random.default_rng(seed)
        n = int(draw.integers(8, 60))
        values = draw.exponential(1, n) if seed % 2 else draw.normal(0, 1, n)
        found, expected = check_normality("box", values.tolist()), stats.shapiro(values)
        assert found.w == pytest.approx(expected.statistic, abs=1e-6)
        assert found.p == pytest.approx(expected.pvalue, abs=1e-5)
        assert [y for _, y in found.points] == sorted(y for _, y in found.points)


@pytest.mark.parametrize("values", [[1.0] * 20, [0.0, 1.0] * 3, []])
def test_no_spread_or_too_few_values_are_no_normality(values):
    assert check_normality("box", values) is None


def samples_of(baseline, environment):
    return [
        Sample(f"{name}{block}", str(block), name, value)
        for name, arm in (("bare", baseline), ("box", environment))
        for block, value in enumerate(arm)
    ]


def both(baseline, environment, *, paired):
    samples = samples_of(baseline, environment)
    (pair,) = compare(
        samples,
        baseline="bare",
        environments=["box"],
        margin=0.02,
        better="lower",
        paired=paired,
        unit="s",
    )
    return pair, compute_robustness(pair, samples)


def lognormal(seed, n, mean=0.0):
    return np.random.default_rng(seed).lognormal(mean, 0.02, n).tolist()


@pytest.mark.parametrize("paired", [True, False])
def test_the_panel_names_every_companion(paired):
    pair, found = both(lognormal(1, 20), lognormal(2, 20, 0.1), paired=paired)
    names = [one.name for one in found.companions]
    assert len(names) == 5
    assert names[0] == ("Wilcoxon’s signed ranks" if paired else "Mann-Whitney")
    assert names[-1] == "the BCa bootstrap"
    assert found.sentence == "All agree with Student’s t about whether there is a difference."
    middle = found.companions[2]
    assert middle.interval[0] < middle.ratio < middle.interval[1]
    assert middle.ratio == pytest.approx(pair.ratio, rel=0.02)
    assert [one.of for one in found.normality] == (["box / bare"] if paired else ["bare", "box"])


@pytest.mark.parametrize("paired", [True, False])
def test_below_eight_it_says_that_there_are_too_few(paired):
    pair, found = both(lognormal(1, 7), lognormal(2, 7), paired=paired)
    assert (found.companions, found.normality) == ((), ())
    assert found.sentence.startswith("Too few runs to check: from 8 ")
    assert pair.verdict is not Verdict.NO_INFERENCE


def test_below_twenty_there_is_no_bootstrap():
    _, found = both(lognormal(1, 19), lognormal(2, 19), paired=False)
    assert len(found.companions) == 4


def test_a_disagreement_is_told_and_changes_nothing():
    """One straggler hides from the mean what every other block shows."""
    baseline = [1.0] * 10
    environment = [1.03 + i / 1e4 for i in range(9)] + [1.9]
    pair, found = both(baseline, environment, paired=True)
    assert pair.verdict is Verdict.INCONCLUSIVE
    assert found.sentence.startswith(
        "They disagree: Wilcoxon’s signed ranks, a permutation of signs and the 20 % trimmed mean "
        "see a difference that Student’s t does not see."
    )
    again, _ = both(baseline, environment, paired=True)
    assert again == pair


def test_without_an_inference_there_is_nothing_to_check():
    _, found = both([1.0] * 9, [1.1] * 9, paired=True)
    assert found.sentence == "There is no inference to check."


def test_what_is_left_of_a_trimmed_mean_may_not_vary():
    pair, found = both([1.0] * 10, [1.0] * 8 + [0.9, 1.2], paired=True)
    middle = next(one for one in found.companions if "trimmed" in one.name)
    assert (middle.p, middle.interval, middle.ratio) == (None, None, 1.0)
    assert math.isfinite(pair.p_difference)
