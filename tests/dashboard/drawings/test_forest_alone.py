"""A comparison that is alone in its figure: the ratio of each block stands above its interval."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.comparisons.forest_figure import list_block_ratios, write_caption
from dashboard.drawings.forest import MOST_BLOCKS, Forest
from dashboard.drawings.forest_json import read_forest, write_forest
from dashboard.drawings.forest_pages import break_pages, estimate_height, measure_notes
from dashboard.drawings.themes import DARK, LIGHT
from experiments.comparisons.comparison import Group
from experiments.statistics import Estimand, Measured, Sample, compare
from tests.dashboard.drawings.examples import NAMES, describe, make_pairs
from tests.dashboard.drawings.test_forest_layout import WIDTHS, check_pages, find, lay_out, texts

ALONE = make_pairs(1, environments=["Apptainer"])[0]


def describe_alone(*ratios: float) -> Forest:
    return describe([replace(ALONE, block_ratios=ratios)])


def make_group(values: dict[str, list[float]], paired: bool = True) -> Group:
    samples = [
        Sample(
            run=f"{name}-{block}",
            block=f"block {block}",
            environment=name,
            value=value,
            started=1000.0 - block,
        )
        for name, row in values.items()
        for block, value in enumerate(row)
    ]
    pairs = compare(
        samples,
        baseline=NAMES[0],
        environments=[name for name in values if name != NAMES[0]],
        margin=0.02,
        better="lower",
        paired=paired,
        unit="s",
    )
    return Group(
        {"workload": "cnn"}, Measured("step_time", "s", "lower", "Time per step"), samples, pairs
    )


def test_the_ratios_are_those_of_whole_blocks_in_the_order_in_which_they_began() -> None:
    group = make_group({NAMES[0]: [1.0, 2.0, 4.0, 8.0], NAMES[1]: [1.1, 2.0, 5.0]})
    (pair,) = group.pairs
    ratios = list_block_ratios(group, pair)
    assert ratios == pytest.approx((1.25, 1.0, 1.1)), "the last block began first"
    assert pair.ratio == pytest.approx(math.prod(ratios) ** (1 / 3))


def test_there_are_none_that_the_ratio_is_not_the_mean_of() -> None:
    values = {NAMES[0]: [1.0, 2.0, 4.0], NAMES[1]: [1.1, 2.0, 5.0]}
    group = make_group(values)
    assert list_block_ratios(group, replace(group.pairs[0], n_blocks=2)) == (), "judged earlier"
    group = make_group(values, paired=False)
    assert list_block_ratios(group, group.pairs[0]) == ()


@pytest.mark.parametrize("paired", [True, False])
def test_of_a_verdict_on_a_partition_they_are_the_means_of_nodes(paired: bool) -> None:
    samples = [
        Sample(f"{name}{block}", f"block {block}", name, value * (1 + block / 100), node=node)
        for block, node in enumerate(("n2", "n1", "n1"))
        for name, value in ((NAMES[0], 1.0), (NAMES[1], 1.0 + block / 10))
    ]
    pairs = compare(
        samples,
        baseline=NAMES[0],
        environments=[NAMES[1]],
        margin=0.02,
        better="lower",
        paired=paired,
        unit="s",
        estimand=Estimand.PARTITION,
    )
    group = Group({}, Measured("step_time", "s", "lower", "Time per step"), samples, pairs)
    ratios = list_block_ratios(group, pairs[0])
    assert ratios == pytest.approx((math.sqrt(1.1 * 1.2), 1.0)), "n1 has two blocks"
    assert pairs[0].ratio == pytest.approx(math.sqrt(math.prod(ratios)))
    assert list_block_ratios(group, replace(pairs[0], nodes=("n1",))) == (), "judged earlier"
    forest = describe([replace(ALONE, pair=pairs[0], block_ratios=ratios)])
    assert read_forest(write_forest(forest)) == forest
    assert "each node" in {text.text for text in texts(lay_out(forest)[0])}
    assert "the mean of each node" in write_caption(forest)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
@pytest.mark.parametrize("width", WIDTHS)
def test_each_block_stands_where_its_ratio_is_above_the_interval(width, theme) -> None:
    ratios = (0.99, 1.004, 1.02)
    forest = describe_alone(*ratios)
    (page,) = lay_out(forest, width, theme)
    check_pages([page])
    one = find(page, "reference")[0].start[0]
    edges = sorted(line.start[0] for line in find(page, "edge"))
    scale = (edges[-1] - edges[0]) / 2 / math.log(1.02)
    blocks = find(page, "block")
    centres = [sum(x for x, _ in each.points) / len(each.points) for each in blocks]
    assert centres == pytest.approx([one + scale * math.log(ratio) for ratio in ratios])
    heights = [max(y for _, y in each.points) for each in blocks]
    assert heights == sorted(heights), "the first one is highest"
    assert heights[-1] < min(y for _, y in find(page, "symbol")[0].points)
    assert {each.fill for each in blocks} == {theme.colour(1)}
    assert "each block" in {text.text for text in texts(page)}
    (band,) = find(page, "band")
    assert min(y for _, y in band.points) < heights[0], "the band is as tall as all of it"
    (blocks_of_page,) = break_pages(forest)
    room = estimate_height(blocks_of_page, measure_notes(forest, blocks_of_page), width)
    assert page.height == pytest.approx(room, abs=5)


def test_among_other_comparisons_blocks_are_left_out() -> None:
    forest = describe([replace(ALONE, block_ratios=(1.0, 1.1)), ALONE])
    assert not any(row.block_ratios for row in forest.rows)
    assert not find(lay_out(forest)[0], "block")


def test_of_thousands_of_blocks_some_are_drawn() -> None:
    forest = describe_alone(*(1 + place / 1e6 for place in range(5000)))
    (row,) = forest.rows
    assert len(row.block_ratios) == MOST_BLOCKS
    check_pages(lay_out(forest))


def test_odd_ratios_are_no_points_and_far_ones_do_not_stretch_the_axis() -> None:
    forest = describe_alone(math.nan, math.inf, 0.0, -1.0, 1.01, 1e9)
    assert forest.rows[0].block_ratios == (1.01, 1e9)
    assert forest.high < 2.5
    assert len(find(lay_out(forest)[0], "block")) == 1
    assert read_forest(write_forest(forest)) == forest


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=40), st.sampled_from(WIDTHS)
)
def test_nothing_leaves_the_paper_whatever_the_blocks_are(ratios, width) -> None:
    check_pages(lay_out(describe_alone(*ratios), width))
