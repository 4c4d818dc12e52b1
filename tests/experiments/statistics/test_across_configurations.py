"""All cells of a question together: the largest p, and the geometric mean of the ratios."""

import math
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, ttest_ind

from experiments.fact_comparison import compare_runs
from experiments.statistics.across_configurations import (
    EXTENDED,
    compute_p_same_ratio,
    summarise_environments,
)
from experiments.statistics.attribution import attribute
from experiments.statistics.compare_samples import compare
from experiments.statistics.estimates import estimate_paired, estimate_unpaired
from experiments.statistics.extended import Extended
from experiments.statistics.margins import Margin
from experiments.statistics.values import Estimand, Sample, Verdict

BARE, BOX = [10.0, 10.1, 9.9, 10.05, 10.0], [10.05, 10.15, 9.95, 10.1, 10.0]
BARE_CLOSE, BOX_CLOSE = [10.0, 10.01, 9.99, 10.005], [10.01, 10.02, 10.0, 10.015]


def pair(bare, box, *, better="lower", margin=0.02, environment="box", unit="s"):
    samples = [
        Sample(f"{name}{k}", str(k), name, value)
        for name, values in (("bare", bare), (environment, box))
        for k, value in enumerate(values)
    ]
    (one,) = compare(
        samples,
        baseline="bare",
        environments=[environment],
        margin=margin,
        better=better,
        paired=False,
        unit=unit,
    )
    return one


def test_equivalent_in_all_cells_is_the_largest_p_without_a_correction():
    cells = [pair(BARE, BOX), pair(BARE, [value * 1.01 for value in BOX])]
    (one,) = summarise_environments(cells)
    assert one.largest_p_equivalence == max(cell.p_equivalence for cell in cells)
    assert one.equivalent_in_all is all(cell.verdict is Verdict.EQUIVALENT for cell in cells)
    assert one.equivalent_in_all is (one.largest_p_equivalence < 0.05)
    assert "in both configurations" in one.sentence
    assert one.evidence in one.sentence


runs = st.lists(st.floats(9, 11), min_size=3, max_size=6, unique=True)


@given(st.lists(st.tuples(runs, runs), min_size=2, max_size=4))
def test_pairs_give_what_all_their_arms_would(cells):
    """Satterthwaite's degrees of freedom of degrees of freedom are those of all variances."""
    (one,) = summarise_environments([pair(bare, box, margin=9) for bare, box in cells])
    estimates = [
        estimate_unpaired([math.log(v) for v in bare], [math.log(v) for v in box])
        for bare, box in cells
    ]
    variances = [(arm.variance / arm.n, arm.n) for each in estimates for arm in each.arms]
    total = sum(v for v, _ in variances)
    assert one.log_ratio == pytest.approx(fmean(each.log_ratio for each in estimates), abs=1e-12)
    assert one.log_se == pytest.approx(math.sqrt(total) / len(cells))
    assert one.df == pytest.approx(total**2 / sum(v**2 / (n - 1) for v, n in variances))


def test_a_throughput_among_times_enters_by_its_inverse():
    time = pair(BARE, BOX)
    rate = pair([1 / v for v in BARE], [1 / v for v in BOX], better="higher")
    (mixed,), (times,) = summarise_environments([time, rate]), summarise_environments([time, time])
    assert mixed.better == "lower"
    assert mixed.geometric_mean_ratio == pytest.approx(times.geometric_mean_ratio)
    assert mixed.ci95 == pytest.approx(times.ci95)
    (rates,) = summarise_environments([rate, rate])
    assert rates.better == "higher"
    assert rates.geometric_mean_ratio == pytest.approx(1 / times.geometric_mean_ratio)


def test_one_cell_or_a_cell_without_inference_has_no_summary():
    assert summarise_environments([pair(BARE, BOX)]) == []
    assert summarise_environments([pair(BARE, BOX), pair([10.0], [10.1])]) == []
    two = [pair(BARE, BOX), pair(BARE, BOX, environment="other")]
    assert summarise_environments(two) == []
    assert [one.environment for one in summarise_environments(two * 2)] == ["box", "other"]


def test_ratios_that_plainly_differ_have_no_mean():
    """Slower with one model and faster with another is nothing on average that anybody pays."""
    cells = [pair(BARE, [value * ratio for value in BOX]) for ratio in (0.6, 1.0, 1.5)]
    (one,) = summarise_environments(cells)
    assert one.ratios_differ
    assert one.p_same_ratio < 1e-6
    assert (one.ratio, one.cost, one.ci95, one.p_difference) == (None, None, None, None)
    assert (one.smallest_ratio, one.largest_ratio) == pytest.approx((0.602, 1.505), abs=0.002)
    assert "The ratios differ, from 0.602 to 1.506 (p of one common ratio < 0.001)" in one.sentence
    assert one.largest_p_equivalence == max(cell.p_equivalence for cell in cells)


def test_ratios_that_differ_by_less_than_the_margin_have_one():
    near = [pair(BARE, [v * 1.0 for v in BARE[::-1]]), pair(BARE, [v * 1.015 for v in BARE[::-1]])]
    (one,) = summarise_environments(near)
    assert one.p_same_ratio < 0.05
    assert not one.ratios_differ
    assert one.ratio == pytest.approx(1.0075, abs=0.001)


def test_with_two_cells_it_is_welchs_t_test():
    """Three values each stand for the log-ratios of three blocks."""
    one, two = [0.01, 0.02, 0.04, 0.03], [0.05, 0.09, 0.06]
    zeros = ([0.0] * 4, [0.0] * 3)
    found = compute_p_same_ratio(
        [estimate_paired(zeros[0], one), estimate_paired(zeros[1], two)], [1, 1]
    )
    assert found == pytest.approx(ttest_ind(one, two, equal_var=False).pvalue)


def test_like_cells_are_seldom_called_different():
    """Welch's F keeps its level with three blocks a cell; Cochran's Q would not."""
    draw, alarms, q_alarms, simulated = np.random.default_rng(7), 0, 0, 2000
    for _ in range(simulated):
        cells = draw.normal(0, 1, (4, 3)) * np.array([[1], [1], [2], [2]])
        estimates = [estimate_paired([0.0] * 3, list(cell)) for cell in cells]
        alarms += compute_p_same_ratio(estimates, [1] * 4) < 0.05
        weights = np.array([1 / one.se**2 for one in estimates])
        logs = np.array([one.log_ratio for one in estimates])
        q = (weights * (logs - (weights * logs).sum() / weights.sum()) ** 2).sum()
        q_alarms += q > chi2.ppf(0.95, 3)
    assert alarms / simulated < 0.08
    assert q_alarms / simulated > 0.2


@pytest.mark.parametrize(
    ("units", "margin", "claim"),
    [
        ("JJ", Margin(0.02, math.inf), "box does not need more than bare by more than 2 %"),
        ("sJ", Margin(0.02, math.inf), "box is not worse than bare by more than 2 %"),
        ("BJ", Margin(0.02, 0.05), "box is equivalent to bare within 5 % less to 2 % more"),
        ("ss", Margin(0.02, 0.05), "box is equivalent to bare within 5 % faster to 2 % slower"),
        ("JJ", Margin(1e-4, math.inf), "box is not shown not to need more than bare by more than"),
    ],
)
def test_a_claim_of_memory_and_energy_names_no_speed(units, margin, claim):
    cells = [pair(BARE_CLOSE, BOX_CLOSE, margin=margin, unit=unit) for unit in units]
    (one,) = summarise_environments(cells)
    assert one.claim.startswith(claim)
    assert not {"is_of_amounts", "wording"} & one.columns.keys()
    if set(units) <= {"B", "J"}:
        assert not any("slower than" in cell.claim or "faster" in cell.claim for cell in cells)


def test_an_extension_of_any_configuration_is_told() -> None:
    pairs = [pair(BARE, BOX), pair(BARE, BOX)]
    (plain,) = summarise_environments(pairs)
    pairs[0] = replace(pairs[0], extension=Extended(planned=5, added=5, level=0.0294))
    (one,) = summarise_environments(pairs)
    assert one.evidence == plain.evidence + EXTENDED
    assert one.columns.keys() == plain.columns.keys()


def test_with_a_configuration_that_is_not_attributable_there_is_no_p_and_no_mean():
    pairs = [pair(BARE_CLOSE, BOX_CLOSE) for _ in range(3)]
    facts = compare_runs([{"CPU": "a"}], [{"CPU": "b"}])
    pairs[1] = attribute(pairs[1], facts)
    (one,) = summarise_environments(pairs)
    assert one.sentence == (
        "box is not shown to be equivalent to bare within 2 % in all 3 configurations compared: "
        "1 of them is not attributable to the container, so there is no p and no mean of all."
    )
    numbers = (one.ratio, one.cost, one.ci95, one.p_difference, one.p_goal, one.largest_p_goal)
    assert set(numbers) == {None}
    (plain,) = summarise_environments([pairs[0], pairs[2]])
    assert plain.equivalent_in_all
    assert plain.ratio
    assert one.columns.keys() == plain.columns.keys()
    (both,) = summarise_environments([pairs[1], pairs[1]])
    assert "compared: 2 of them are not attributable" in both.sentence


def on_nodes(seed, *, nodes=6, shift=0, estimand=Estimand.PARTITION, of_node=0.02, first=0):
    """A comparison of two blocks on each node; what a node adds to the ratio is its own."""
    draw, samples = np.random.default_rng(seed), []
    for node in range(first, first + nodes):
        effect = of_node * np.random.default_rng([99, node]).standard_normal()
        for block in (2 * node, 2 * node + 1):
            noise = draw.normal(0, 0.001, 2)
            for name, log in (("bare", noise[0]), ("box", noise[1] + shift + effect)):
                run = f"{name}{block}"
                samples.append(Sample(run, str(block), name, math.exp(log), node=f"n{node}"))
    (one,) = compare(
        samples,
        baseline="bare",
        environments=["box"],
        margin=0.02,
        better="lower",
        paired=True,
        unit="s",
        estimand=estimand,
    )
    return one


def test_configurations_on_the_same_nodes_know_no_more_of_the_partition_than_one_of_them():
    cells = [on_nodes(1), on_nodes(2), on_nodes(3)]
    (one,) = summarise_environments(cells)
    assert one.shares_nodes
    assert one.log_se == pytest.approx(fmean(cell.log_se for cell in cells))
    assert one.df == pytest.approx(5)
    assert one.log_ratio == pytest.approx(fmean(math.log(cell.ratio) for cell in cells))
    assert "ran on the same nodes" in one.sentence


def test_configurations_on_nodes_of_their_own_are_independent():
    (one,) = summarise_environments([on_nodes(1), on_nodes(2, first=6)])
    assert not one.shares_nodes
    assert "same nodes" not in one.sentence
    (of_these,) = summarise_environments([on_nodes(s, estimand=Estimand.NODES) for s in (1, 2)])
    assert not of_these.shares_nodes, "what these nodes add is no error of a verdict on them"


def test_the_interval_over_configurations_on_the_same_nodes_holds_the_mean_of_the_partition():
    """Taken as independent it holds it in 70 of 100 experiments only."""
    held, held_as_independent = 0, 0
    for number in range(120):
        nodes = range(6 * number, 6 * number + 6)
        cells = [on_nodes([number, k], first=nodes[0]) for k in range(4)]
        (one,) = summarise_environments(cells)
        held += one.ci95[0] <= 1 <= one.ci95[1]
        (other,) = summarise_environments([replace(cell, nodes=()) for cell in cells])
        held_as_independent += other.ci95[0] <= 1 <= other.ci95[1]
    assert 0.9 <= held / 120 <= 0.99
    assert held_as_independent / 120 < 0.8
