"""All cells of a question together: the largest p, and the geometric mean of the ratios."""

import math
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.statistics.comparison import compare
from experiments.statistics.estimates import unpaired
from experiments.statistics.everywhere import everywhere
from experiments.statistics.values import Sample, Verdict

BARE, BOX = [10.0, 10.1, 9.9, 10.05, 10.0], [10.05, 10.15, 9.95, 10.1, 10.0]


def pair(bare, box, *, better="lower", margin=0.02, environment="box"):
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
        unit="s",
    )
    return one


def test_equivalent_in_all_cells_is_the_largest_p_without_a_correction():
    cells = [pair(BARE, BOX), pair(BARE, [value * 1.01 for value in BOX])]
    (one,) = everywhere(cells)
    assert one.largest_p_equivalence == max(cell.p_equivalence for cell in cells)
    assert one.equivalent_in_all is all(cell.verdict is Verdict.EQUIVALENT for cell in cells)
    assert one.equivalent_in_all is (one.largest_p_equivalence < 0.05)
    assert "in all 2 cells" in one.sentence
    assert one.evidence in one.sentence


runs = st.lists(st.floats(9, 11), min_size=3, max_size=6, unique=True)


@given(st.lists(st.tuples(runs, runs), min_size=2, max_size=4))
def test_pairs_give_what_all_their_arms_would(cells):
    """Satterthwaite's degrees of freedom of degrees of freedom are those of all variances."""
    (one,) = everywhere([pair(bare, box) for bare, box in cells])
    estimates = [
        unpaired([math.log(v) for v in bare], [math.log(v) for v in box]) for bare, box in cells
    ]
    variances = [(arm.variance / arm.n, arm.n) for each in estimates for arm in each.arms]
    total = sum(v for v, _ in variances)
    assert one.log_ratio == pytest.approx(fmean(each.log_ratio for each in estimates), abs=1e-12)
    assert one.log_se == pytest.approx(math.sqrt(total) / len(cells))
    assert one.df == pytest.approx(total**2 / sum(v**2 / (n - 1) for v, n in variances))


def test_a_throughput_among_times_enters_by_its_inverse():
    time = pair(BARE, BOX)
    rate = pair([1 / v for v in BARE], [1 / v for v in BOX], better="higher")
    (mixed,), (times,) = everywhere([time, rate]), everywhere([time, time])
    assert mixed.better == "lower"
    assert mixed.geometric_mean_ratio == pytest.approx(times.geometric_mean_ratio)
    assert mixed.ci95 == pytest.approx(times.ci95)
    (rates,) = everywhere([rate, rate])
    assert rates.better == "higher"
    assert rates.geometric_mean_ratio == pytest.approx(1 / times.geometric_mean_ratio)


def test_one_cell_or_a_cell_without_inference_has_no_summary():
    assert everywhere([pair(BARE, BOX)]) == []
    assert everywhere([pair(BARE, BOX), pair([10.0], [10.1])]) == []
    two = [pair(BARE, BOX), pair(BARE, BOX, environment="other")]
    assert everywhere(two) == []
    assert [one.environment for one in everywhere(two * 2)] == ["box", "other"]
