"""Components of variance: known data, another program, simulations, and what cannot be seen."""

from __future__ import annotations

import math
import warnings
from itertools import pairwise

import numpy as np
import pytest

from experiments.statistics.reml import NestedLikelihood
from experiments.statistics.variance_components import Component, split_variance

DYESTUFF = {
    "A": (1545, 1440, 1440, 1520, 1580),
    "B": (1540, 1555, 1490, 1560, 1495),
    "C": (1595, 1550, 1605, 1510, 1560),
    "D": (1445, 1440, 1595, 1465, 1545),
    "E": (1595, 1630, 1515, 1635, 1625),
    "F": (1520, 1455, 1450, 1480, 1445),
}
"""Grams of dyestuff of six batches: Davies and Goldsmith, Statistical Methods in Research and
Production (4th edition, 1972), table 6.3."""
BATCHES = [batch for batch, values in DYESTUFF.items() for _ in values]
GRAMS = [float(value) for values in DYESTUFF.values() for value in values]


def named(components: list[Component]) -> dict[str, Component]:
    return {component.name: component for component in components}


def sds(components: list[Component]) -> list[float | None]:
    return [component.sd for component in components]


def draw_nested(
    seed: int, sizes: list[list[int]], spread: tuple[float, float, float], environments: int = 1
) -> tuple[list[float], dict[str, list[str]], list[str]]:
    """Return logs by node and block; `sizes` has the number of runs of each block of each node."""
    draw = np.random.default_rng(seed)
    logs, nodes, blocks, names = [], [], [], []
    for node, of_node in enumerate(sizes):
        node_adds = draw.normal(0, spread[0])
        for block, count in enumerate(of_node):
            block_adds = draw.normal(0, spread[1])
            for run in range(count):
                logs.append(node_adds + block_adds + draw.normal(0, spread[2]))
                nodes.append(f"node{node}")
                blocks.append(f"{node}/{block}")
                names.append(f"environment{run % environments}")
    return logs, {"node": nodes, "block": blocks}, names


def test_dyestuff_has_the_components_that_lme4_gives() -> None:
    batch, run = split_variance(GRAMS, {"batch": BATCHES}, ["one"] * 30)
    assert batch.sd == pytest.approx(42.00, abs=0.005)
    assert run.sd == pytest.approx(49.51, abs=0.005)
    # Balanced, so that the answer is that of the analysis of variance as well.
    means = [np.mean(values) for values in DYESTUFF.values()]
    within = np.mean([np.var(values, ddof=1) for values in DYESTUFF.values()])
    assert run.variance == pytest.approx(within, rel=1e-6)
    assert batch.variance == pytest.approx(np.var(means, ddof=1) - within / 5, rel=1e-6)


def test_the_profile_has_its_ends_where_the_deviance_has_risen_by_the_quantile() -> None:
    """Search the deviance by another way: its formula in full, and a general optimiser."""
    from scipy.optimize import brentq, minimize_scalar

    table = np.array([[float(name == other) for other in DYESTUFF] for name in BATCHES])
    values, ones = np.array(GRAMS), np.ones((30, 1))

    def deviance(batch: float, run: float) -> float:
        total = run * np.eye(30) + batch * table @ table.T
        inverse = np.linalg.inv(total)
        weight = ones.T @ inverse @ ones
        apart = values - float((ones.T @ inverse @ values / weight)[0, 0])
        logs = np.linalg.slogdet(total)[1] + np.linalg.slogdet(weight)[1]
        return float(logs + apart @ inverse @ apart)

    def least(batch: float) -> float:
        found = minimize_scalar(
            lambda log: deviance(batch, math.exp(log)),
            bounds=(6, 9.5),
            method="bounded",
            options={"xatol": 1e-10},
        )
        return float(found.fun)

    components = split_variance(GRAMS, {"batch": BATCHES}, ["one"] * 30)
    level = least(components[0].variance) + 3.841458820694124
    expected = [
        math.sqrt(brentq(lambda batch: least(batch) - level, low, high, xtol=1e-6))
        for low, high in ((1, 1700), (1800, 40_000))
    ]
    assert components[0].sd_ci95 == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_unbalanced_groups_have_the_components_of_statsmodels(seed: int) -> None:
    import pandas as pd
    import statsmodels.formula.api as smf

    sizes = [[2, 4, 2], [6, 2], [4, 4, 2, 2], [2, 2, 8], [4, 6], [2, 2, 2]]
    logs, groups, names = draw_nested(seed, sizes, (1.0, 0.7, 0.5), environments=2)
    frame = pd.DataFrame({"y": logs, "environment": names, **groups})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = smf.mixedlm(
            "y ~ environment",
            frame,
            groups="node",
            re_formula="1",
            vc_formula={"b": "0 + C(block)"},
        ).fit(reml=True, method=["powell", "lbfgs"])
    expected = [float(fitted.cov_re.iloc[0, 0]), float(fitted.vcomp[0]), float(fitted.scale)]
    found = [component.variance for component in split_variance(logs, groups, names)]
    assert found == pytest.approx(expected, rel=1e-2, abs=1e-4)
    # Its search ends a little before the optimum: both are judged by one likelihood.
    likelihood = NestedLikelihood(
        logs,
        *(np.unique(labels, return_inverse=True)[1] for labels in groups.values()),
        [int(name[-1]) for name in names],
    )
    shares = np.array([np.array(variances) / sum(variances) for variances in (found, expected)])
    (ours, theirs), _ = likelihood.compute(shares)
    assert theirs - 1e-3 < ours <= theirs + 1e-9


def test_what_the_design_cannot_see_has_a_reason_and_no_number() -> None:
    logs, groups, names = draw_nested(1, [[4] * 5], (1, 1, 1), environments=2)
    one_node = named(split_variance(logs, groups, names))
    assert one_node["nodes"].sd is None
    assert one_node["nodes"].why_unseen == "all runs are of one node"
    assert one_node["blocks"].sd is not None
    alone = named(split_variance(*draw_nested(1, [[1] * 5, [1] * 5], (1, 1, 1))))
    assert list(alone) == ["nodes", "blocks and runs"]
    block_a_node = named(split_variance(*draw_nested(1, [[4]] * 5, (1, 1, 1))))
    assert list(block_a_node) == ["nodes and blocks", "runs"]
    groups["node"][0] = ""
    unknown = named(split_variance(logs, groups, names))
    assert unknown["nodes"].why_unseen == "the node of some runs is not known"
    aliased = split_variance(logs, {"block": [name[-1] for name in names]}, names)
    assert aliased[0].why_unseen == "its blocks differ from each other only as environments do"
    assert aliased[1].sd is not None


def test_one_run_and_equal_values_have_no_components_and_nan_is_refused() -> None:
    (node, block, run) = split_variance([0.1], {"node": ["a"], "block": ["1"]}, ["bare"])
    assert {node.sd, block.sd, run.sd} == {None}
    assert all(component.why_unseen for component in (node, block, run))
    equal = split_variance([0.1] * 8, {"block": list("11223344")}, ["bare"] * 8)
    assert [component.why_unseen for component in equal] == ["all values are identical"] * 2
    assert split_variance([], {"block": []}, []) == []
    with pytest.raises(ValueError, match="finite"):
        split_variance([0.1, math.nan], {"block": ["1", "2"]}, ["bare"] * 2)


@pytest.mark.parametrize("seed", range(3))
def test_unit_order_and_labels_change_nothing(seed: int) -> None:
    logs, groups, names = draw_nested(seed, [[2, 4], [2, 2, 2], [4]], (0.02, 0.01, 0.01), 2)
    components = split_variance(logs, groups, names)
    order = np.random.default_rng(seed).permutation(len(logs))
    moved = split_variance(
        [logs[place] + 7.3 + (names[place] == "environment1") for place in order],
        {level: [f"x{labels[place]}" for place in order] for level, labels in groups.items()},
        [f"y{names[place]}" for place in order],
    )
    for one, other in zip(components, moved, strict=True):
        assert other.sd == pytest.approx(one.sd, rel=1e-5, abs=1e-9)
        assert other.sd_ci95 == pytest.approx(one.sd_ci95, rel=1e-3, abs=1e-9)
    larger = split_variance([1000 * log for log in logs], groups, names)
    for one, other in zip(components, larger, strict=True):
        assert other.sd == pytest.approx(1000 * (one.sd or 0), rel=1e-5, abs=1e-6)
        assert other.share == pytest.approx(one.share, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_estimates_lie_in_their_intervals_and_shares_add_up(seed: int) -> None:
    draw = np.random.default_rng(seed)
    sizes = [list(draw.integers(1, 5, draw.integers(1, 5))) for _ in range(draw.integers(1, 7))]
    node, block = draw.choice([0.0, 0.003, 0.02], 2)
    logs, groups, names = draw_nested(seed, sizes, (node, block, 0.01), environments=2)
    components = split_variance(logs, groups, names)
    seen = [component for component in components if component.sd is not None]
    assert all((component.sd is None) == bool(component.why_unseen) for component in components)
    for component in seen:
        low, high = component.sd_ci95 or (1, 0)
        assert low * (1 - 1e-9) <= (component.sd or 0) <= high * (1 + 1e-9)
    if len(seen) == 1:
        assert seen[0].share is None, "The only level that is seen has no share to be told."
        return
    assert not seen or math.fsum(component.share or 0 for component in seen) == pytest.approx(1)
    for component in seen:
        assert component.share is not None
        assert component.share_ci95
        assert 0 <= component.share_ci95[0] <= component.share + 1e-9
        assert component.share <= component.share_ci95[1] + 1e-9 <= 1 + 2e-9


def count_held(
    sizes: list[list[int]], spread: tuple[float, float, float], times: int
) -> list[float]:
    """Return in which share of simulated data sets each component's interval holds the truth.

    The table in docs/statistics.md is from this, with 1,000 data sets each.
    """
    held: dict[str, int] = {}
    true = dict(zip(("node", "block", "run"), spread, strict=True))
    for seed in range(times):
        for component in split_variance(*draw_nested(seed, sizes, spread)):
            if component.sd_ci95:
                low, high = component.sd_ci95
                own = math.sqrt(sum(true[level] ** 2 for level in component.levels))
                held[component.name] = held.get(component.name, 0) + (low <= own <= high)
    return [count / times for count in held.values()]


@pytest.mark.parametrize(
    ("sizes", "spread"),
    [([[4, 4]] * 5, (1.0, 1.0, 1.0)), ([[2] * 4, [2] * 3, [2]], (1.0, 0.5, 0.7))],
)
def test_the_intervals_hold_the_truth_as_often_as_they_say(
    sizes: list[list[int]], spread: tuple[float, float, float]
) -> None:
    """Of 200 data sets at least 90 %: fewer by chance once in a thousand, were it 95 %."""
    held = count_held(sizes, spread, 200)
    assert len(held) == 3
    assert min(held) >= 0.9, held


def test_a_component_that_is_not_there_may_be_zero_but_the_interval_says_how_large_it_can_be() -> (
    None
):
    components = named(split_variance(*draw_nested(3, [[4, 4]] * 6, (0.0, 0.0, 1.0))))
    low, high = components["nodes"].sd_ci95 or (1, 0)
    assert low == 0
    assert 0.1 < high < 2


def test_five_thousand_runs_and_as_many_nodes_have_components() -> None:
    many = split_variance(*draw_nested(1, [[5] * 20] * 50, (0.5, 1, 2), environments=5))
    for component, true in zip(many, (0.5, 1, 2), strict=True):
        low, high = component.sd_ci95 or (0, 0)
        assert low < true < high
        assert high < 1.8 * low
    nodes = split_variance(*draw_nested(1, [[1, 1]] * 2500, (0.5, 1, 0.0)))
    assert [component.name for component in nodes] == ["nodes", "blocks and runs"]


def test_sums_by_group_give_the_deviance_of_the_whole_matrix() -> None:
    logs, groups, names = draw_nested(5, [[2, 3], [1, 4, 2], [3]], (1, 1, 1), environments=2)
    coded = {name: np.unique(labels, return_inverse=True)[1] for name, labels in groups.items()}
    likelihood = NestedLikelihood(
        logs, coded["node"], coded["block"], [int(name[-1]) for name in names]
    )
    columns = np.array([[name.endswith("0"), name.endswith("1")] for name in names], dtype=float)
    deviances = []
    for shares in ((0.2, 0.3, 0.5), (0.0, 0.6, 0.4), (0.5, 0.0, 0.5)):
        matrix = shares[2] * np.eye(len(logs))
        for share, codes in zip(shares, coded.values(), strict=False):
            matrix = matrix + share * (codes[:, None] == codes)
        inverse = np.linalg.inv(matrix)
        weight = columns.T @ inverse @ columns
        apart = np.array(logs) - columns @ np.linalg.solve(weight, columns.T @ inverse @ logs)
        df = len(logs) - 2
        total = apart @ inverse @ apart / df
        logdets = np.linalg.slogdet(matrix)[1] + np.linalg.slogdet(weight)[1]
        (deviance,), (relative,) = likelihood.compute(np.array([shares]))
        assert relative * likelihood.scale**2 == pytest.approx(total, rel=1e-9)
        deviances.append((deviance, df * math.log(total) + logdets))
    for one, other in pairwise(deviances):
        assert one[0] - other[0] == pytest.approx(one[1] - other[1], rel=1e-9)
