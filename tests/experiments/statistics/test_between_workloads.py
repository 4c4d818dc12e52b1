"""Two workloads in the same environments: ratios, ratios of ratios, and what the intervals hold."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from experiments.statistics.between_workloads import compare_workloads
from experiments.statistics.values import Sample

BARE, BOX = "bare metal", "Apptainer"


def make_samples(values: dict[str, Sequence[float]], start: int = 0) -> list[Sample]:
    """Return runs of blocks: the k-th value of each environment is in the same block."""
    return [
        Sample(f"{name}-{start + k}", str(start + k), name, value)
        for name, row in values.items()
        for k, value in enumerate(row)
    ]


SYNTHETIC = make_samples({BARE: [10.0, 10.2, 9.9], BOX: [10.1, 10.4, 10.0]})
REAL = make_samples({BARE: [15.0, 15.5, 15.1], BOX: [16.6, 17.0, 16.4]}, start=3)


def test_the_ratio_in_an_environment_is_welch_on_logs() -> None:
    bare, box = compare_workloads(SYNTHETIC, REAL, environments=[BARE, BOX], paired=True)
    logs = [np.log([s.value for s in rows if s.environment == BARE]) for rows in (REAL, SYNTHETIC)]
    expected = stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.95)
    assert bare.ratio is not None
    assert bare.ratio.ci95 == pytest.approx(np.exp([expected.low, expected.high]), rel=1e-10)
    assert bare.cost_change is None, "the baseline costs nothing against itself"
    assert (box.runs_reference, box.runs_other) == (3, 3)


def test_the_change_of_the_cost_is_of_blocks_where_the_design_is_paired() -> None:
    _, box = compare_workloads(SYNTHETIC, REAL, environments=[BARE, BOX], paired=True)
    costs = [
        np.log([b / a for a, b in zip(bare, boxed, strict=True)])
        for bare, boxed in (
            ([15.0, 15.5, 15.1], [16.6, 17.0, 16.4]),
            ([10.0, 10.2, 9.9], [10.1, 10.4, 10.0]),
        )
    ]
    expected = stats.ttest_ind(*costs, equal_var=False).confidence_interval(0.95)
    assert box.cost_change is not None
    assert box.cost_change.value == pytest.approx(math.exp(costs[0].mean() - costs[1].mean()))
    assert box.cost_change.ci95 == pytest.approx(np.exp([expected.low, expected.high]), rel=1e-10)


def test_without_blocks_the_change_of_the_cost_has_four_arms() -> None:
    _, box = compare_workloads(SYNTHETIC, REAL, environments=[BARE, BOX], paired=False)
    _, paired = compare_workloads(SYNTHETIC, REAL, environments=[BARE, BOX], paired=True)
    assert box.cost_change is not None
    assert paired.cost_change is not None
    assert box.cost_change.value == pytest.approx(paired.cost_change.value)
    assert box.cost_change.ci95 != paired.cost_change.ci95


def test_a_block_without_one_of_both_counts_in_no_cost() -> None:
    lone = make_samples({BARE: [10.0, 10.2, 9.9], BOX: [10.1, 10.4]})
    _, box = compare_workloads(lone, REAL, environments=[BARE, BOX], paired=True)
    assert box.runs_reference == 2
    assert box.cost_change is not None
    assert box.cost_change.ci95 is not None


def test_one_run_has_a_ratio_and_no_interval_and_none_has_no_row() -> None:
    one = make_samples({BARE: [10.0]})
    (row,) = compare_workloads(one, REAL, environments=[BARE, BOX], paired=True)
    assert row.ratio is not None
    assert row.ratio.ci95 is None
    assert row.ratio.flaw == "n = 1"


@pytest.mark.parametrize("paired", [True, False])
def test_intervals_hold_the_true_change_of_the_cost(paired: bool) -> None:
    """4,000 simulated experiments of five blocks; nodes differ by 5 %, runs by 1 %."""
    draw, held, truth = np.random.default_rng(17), 0, 1.1
    trials = 4000 if paired else 1000
    for _ in range(trials):
        rows = []
        for start, level, cost in ((0, 10.0, 1.02), (5, 15.0, 1.02 * truth)):
            block = draw.normal(0, 0.05 if paired else 0, 5)
            values = {
                name: list(level * factor * np.exp(block + draw.normal(0, 0.01, 5)))
                for name, factor in ((BARE, 1.0), (BOX, cost))
            }
            rows.append(make_samples(values, start))
        _, box = compare_workloads(*rows, environments=[BARE, BOX], paired=paired)
        low, high = box.cost_change.ci95  # type: ignore[union-attr,misc]
        held += low <= truth <= high
    assert 0.94 <= held / trials <= 0.97
