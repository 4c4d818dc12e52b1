"""Diamonds of pooled rows: where they are, how wide, what is dashed, and when there is none."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.drawings.elements import Drawing, Line, Polygon, Text
from dashboard.drawings.forest import Forest
from dashboard.drawings.forest_diamond import NARROWEST, draw_diamond
from dashboard.drawings.forest_json import read_forest, write_forest
from dashboard.drawings.forest_pages import estimate_heights
from dashboard.drawings.themes import LIGHT
from experiments.statistics.pooling import Pooled, pool_environments
from tests.dashboard.drawings.examples import NAMES, describe, make_pairs
from tests.dashboard.drawings.test_forest_layout import WIDTHS, check_pages, find, lay_out


def make(ratio: float = 1.0, half: float = 0.01, **columns: Any) -> Pooled:
    mean = Pooled(
        environment=NAMES[1],
        configurations=6,
        level=0.9,
        blocks=48,
        ratio=ratio,
        interval=(ratio / (1 + half), ratio * (1 + half)),
        prediction=(ratio / (1 + 3 * half), ratio * (1 + 3 * half)),
        tau=0.01,
    )
    return replace(mean, **columns)


def describe_with(*pooled: Pooled, groups: int = 6) -> Forest:
    return describe(make_pairs(groups, environments=NAMES[1:3]), pooled=pooled)


def find_scale(drawing: Drawing) -> tuple[float, float]:
    """Return where the ratio 1 is, and how many millimetres the margin of 2 % takes."""
    one = find(drawing, "reference")[0].start[0]
    edges = sorted(line.start[0] for line in find(drawing, "edge"))
    return one, (edges[-1] - edges[0]) / 2


@pytest.mark.parametrize("width", WIDTHS)
def test_a_diamond_is_as_wide_as_the_interval_and_the_dashes_as_the_prediction(width: int) -> None:
    (page,) = lay_out(describe_with(make(1.01)), width)
    check_pages([page])
    one, margin = find_scale(page)

    def place(ratio: float) -> float:
        return one + margin * math.log(ratio) / math.log(1.02)

    (diamond,) = find(page, "diamond")
    xs = sorted(x for x, _ in diamond.points)
    wanted = [place(1.01 / 1.01), place(1.01), place(1.01), place(1.01 * 1.01)]
    assert xs == pytest.approx(wanted, abs=1e-6)
    (dashed,) = find(page, "prediction")
    assert (dashed.start[0], dashed.end[0]) == pytest.approx(
        (place(1.01 / 1.03), place(1.01 * 1.03))
    )
    assert dashed.dash
    assert len(find(page, "prediction cap")) == 2
    assert diamond.fill == LIGHT.colour(1)


def test_pooled_rows_stand_last_below_a_rule_with_their_numbers_and_a_note() -> None:
    (page,) = lay_out(describe_with(make(), make(environment=NAMES[2])))
    texts = [element for element in page.elements if isinstance(element, Text)]
    (heading,) = (text for text in texts if text.text == "Pooled over all 6 configurations")
    below = {text.text for text in texts if text.place[1] > heading.place[1]}
    assert {NAMES[1], NAMES[2], "1.000", "0.990", "1.010", "0.0", "48"} <= below
    notes = " ".join(text.text for text in texts)
    assert "diamond: 90 % interval of the mean over configurations, random effects" in notes
    assert "dashed: 90 % prediction interval" in notes
    assert all(y > heading.place[1] for shape in find(page, "diamond") for _, y in shape.points)
    assert len(find(page, "diamond")) == 2


def test_a_narrow_interval_is_still_seen_as_a_diamond() -> None:
    (page,) = lay_out(describe_with(make(half=1e-6)))
    (diamond,) = find(page, "diamond")
    xs = [x for x, _ in diamond.points]
    assert max(xs) - min(xs) == pytest.approx(NARROWEST)


def test_without_a_prediction_nothing_is_dashed() -> None:
    forest = describe_with(make(prediction=None))
    (page,) = lay_out(forest)
    assert (find(page, "prediction"), find(page, "prediction cap")) == ([], [])
    assert "dashed" not in str(forest.notes)


def test_what_is_refused_is_not_drawn() -> None:
    refused = Pooled(environment=NAMES[1], configurations=6, level=0.9, why_not="no")
    forest = describe_with(refused)
    assert forest == describe_with()
    assert not any(find(page, "diamond") for page in lay_out(forest))


def test_a_prediction_beyond_the_axis_ends_in_arrows() -> None:
    (page,) = lay_out(describe_with(make(prediction=(0.01, 90.0))))
    check_pages([page])
    arrows = find(page, "arrow")
    assert len(arrows) == 2
    assert not find(page, "prediction cap")
    (row,) = (row for row in describe_with(make(prediction=(0.01, 90.0))).rows if row.is_pooled)
    assert "90 % prediction interval 0.010 to 90.0" in row.notes


def test_it_survives_the_way_to_the_process_that_draws() -> None:
    forest = describe_with(make(), make(environment=NAMES[2], prediction=None))
    assert read_forest(write_forest(forest)) == forest


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("groups", [5, 20, 72])
def test_pages_have_room_for_pooled_rows(groups: int, width: int) -> None:
    compared = make_pairs(groups)
    forest = describe(compared, pooled=[make(environment=name) for name in NAMES[1:4]])
    pages = lay_out(forest, width)
    check_pages(pages)
    assert sum(len(find(page, "diamond")) for page in pages) == len(find(pages[-1], "diamond")) == 3
    for page, room in zip(pages, estimate_heights(forest, width), strict=True):
        assert page.height == pytest.approx(room, abs=5)


def test_real_pairs_are_pooled_where_they_agree() -> None:
    compared = make_pairs(6, costs=(0.0, 0.0, 0.001))
    pooled = pool_environments([one.pair for one in compared])
    drawn = [one for one in pooled if one.ratio]
    assert drawn
    assert sum(row.is_pooled for row in describe(compared, pooled=pooled).rows) == len(drawn)


ratios = st.floats(1e-9, 1e9)


@settings(deadline=None, max_examples=60)
@given(ratios, ratios, ratios, ratios, ratios)
def test_no_numbers_leave_the_paper(a: float, b: float, c: float, d: float, ratio: float) -> None:
    low, first, last, high = sorted((a, b, c, d))
    mean = make(ratio=min(max(ratio, first), last), interval=(first, last), prediction=(low, high))
    for width in WIDTHS:
        check_pages(lay_out(describe_with(mean, groups=1), width))


def test_a_row_without_a_ratio_draws_nothing() -> None:
    forest = describe_with(make())
    row = replace(forest.rows[-1], ratio=None)
    assert list(draw_diamond(row, 0.0, None, LIGHT)) == []  # type: ignore[arg-type]
    shapes = (Line, Polygon)
    assert all(
        isinstance(shape, shapes) for page in lay_out(forest) for shape in find(page, "diamond")
    )
