"""Figures of any size: everything on the paper, nothing over anything else, numbers where drawn."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.drawings.elements import Drawing, Line, Polygon, Text
from dashboard.drawings.forest import ComparedPair, change_names
from dashboard.drawings.forest_figures import lay_out_forest
from dashboard.drawings.forest_pages import TALLEST, break_pages, estimate_heights
from dashboard.drawings.themes import DARK, GREY, LIGHT
from dashboard.drawings.typeface import clean
from experiments.statistics import Verdict
from tests.dashboard.drawings.examples import NAMES, describe, get_typeface, make_pairs
from tests.dashboard.drawings.test_forest import make_pair

WIDTHS = (88, 180)
TALL, DEEP = 1.7, 0.45
"""Millimetres of 7 pt letters above and below their baseline."""
TOUCH = 0.05


def lay_out(forest, width=180, theme=LIGHT):
    return lay_out_forest(forest, width=width, theme=theme, type_=get_typeface())


def find(drawing: Drawing, name: str):
    return [shape for shape in drawing.elements if getattr(shape, "name", "") == name]


def texts(drawing: Drawing) -> list[Text]:
    return [element for element in drawing.elements if isinstance(element, Text)]


def box(text: Text) -> tuple[float, float, float, float]:
    wide = get_typeface().measure(text.text, text.face)
    left = text.place[0] - {"start": 0, "middle": wide / 2, "end": wide}[text.anchor]
    return left, text.place[1] - TALL, left + wide, text.place[1] + DEEP


def check_pages(pages: list[Drawing]) -> None:
    for page in pages:
        assert page.height <= TALLEST
        boxes = [(box(text), text.text) for text in texts(page)]
        for (left, top, right, bottom), text in boxes:
            assert -TOUCH <= left <= right <= page.width + TOUCH, text
            assert 0 <= top <= bottom <= page.height, text
        boxes.sort(key=lambda found: found[0][1])
        for place, (one, text) in enumerate(boxes):
            for other, other_text in boxes[place + 1 :]:
                if other[1] >= one[3] - TOUCH:
                    break  # it and all that follow begin below
                apart = one[2] <= other[0] + TOUCH or other[2] <= one[0] + TOUCH
                assert apart, (text, other_text)
        for shape in page.elements:
            if isinstance(shape, Line | Polygon):
                points = shape.points if isinstance(shape, Polygon) else (shape.start, shape.end)
                assert all(0 <= x <= page.width and 0 <= y <= page.height for x, y in points)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("groups", [1, 6, 20, 72])
def test_nothing_overlaps_with_any_number_of_comparisons(groups: int, width: int) -> None:
    forest = describe(make_pairs(groups, environments=NAMES[1:4]))
    pages = lay_out(forest, width)
    check_pages(pages)
    heights = estimate_heights(forest, width)
    assert len(pages) == len(heights)
    for page, room in zip(pages, heights, strict=True):
        assert page.height == pytest.approx(room, abs=5), "what a browser keeps free for it"


@pytest.mark.parametrize(
    "heading",
    ["{model}, {nodes}x4" + "\u200b" * 120, "bob's {model}, {nodes}x4, " + "letters " * 4],
    ids=["letters that are not drawn", "a name that is hidden"],
)
def test_the_pages_of_a_description_are_those_that_are_drawn(heading: str) -> None:
    def hide(text: str) -> str:
        return text.replace("bob", "account-1")

    forest = describe(make_pairs(72, heading=heading), hide=hide)
    drawn = lay_out(forest, 88)
    broken = break_pages(forest)
    assert len(drawn) == len(broken)
    for page, blocks in zip(drawn, broken, strict=True):
        assert len(find(page, "symbol")) == sum(len(block.rows) for block in blocks)
    as_drawn = change_names(forest, lambda text: clean(hide(text)))
    assert break_pages(as_drawn) == broken, "nothing changes the texts afterwards"


ODD_NAMES = st.text(max_size=120)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(ODD_NAMES, ODD_NAMES, st.floats(1e-9, 1e9)), min_size=1, max_size=5),
    st.sampled_from(WIDTHS),
)
def test_nothing_overlaps_whatever_things_are_called(rows, width) -> None:
    compared = [
        ComparedPair(
            group,
            make_pair(
                environment=name,
                ratio=ratio,
                ci95=(ratio / 1.5, ratio * 1.5),
                ci90=(ratio / 1.2, ratio * 1.2),
                n_blocks=10**6,
                detail=f"no run of {name}",
                verdict=Verdict.NO_INFERENCE,
            ),
            10**5,
        )
        for group, name, ratio in rows
    ]
    check_pages(lay_out(describe(compared, baseline=rows[0][0], metric=rows[0][1]), width))


@pytest.mark.parametrize("width", WIDTHS)
def test_every_mark_stands_where_its_number_is_on_the_log_axis(width: int) -> None:
    compared = make_pairs(6)
    forest = describe(compared)
    (page,) = lay_out(forest, width)
    ticks = find(page, "tick")
    marked = forest.ticks if len(ticks) == len(forest.ticks) else forest.few_ticks
    (x1, value1), (x2, value2) = ((ticks[i].start[0], marked[i][0]) for i in (0, -1))

    def ratio_at(x: float) -> float:
        share = (x - x1) / (x2 - x1)
        return math.exp(math.log(value1) + share * math.log(value2 / value1))

    pairs = [one.pair for one in compared]
    for name, wanted in (("thick", "ci90"), ("thin", "ci95")):
        lines = find(page, name)
        assert len(lines) == 18
        for line, pair in zip(lines, pairs, strict=True):
            drawn = (ratio_at(line.start[0]), ratio_at(line.end[0]))
            assert drawn == pytest.approx(getattr(pair, wanted), rel=1e-9)
    for symbol, pair in zip(find(page, "symbol"), pairs, strict=True):
        middle = (min(x for x, _ in symbol.points) + max(x for x, _ in symbol.points)) / 2
        assert ratio_at(middle) == pytest.approx(pair.ratio, rel=1e-9)
    for band in find(page, "band"):
        assert ratio_at(band.points[0][0]) == pytest.approx(1 / 1.02)
        assert ratio_at(band.points[1][0]) == pytest.approx(1.02)
    assert all(ratio_at(line.start[0]) == pytest.approx(1) for line in find(page, "reference"))


def test_rows_and_their_texts_are_aligned() -> None:
    (page,) = lay_out(describe(make_pairs(6)))
    for line, word in zip(
        find(page, "thick"), [text for text in texts(page) if text.text in NAMES], strict=True
    ):
        assert word.place == (2.4, pytest.approx(line.start[1] + 0.87))
    right = {text.place[0] for text in texts(page) if text.text in ("+3.5", "−3.0", "+0.2")}
    assert len(right) == 1


def test_an_interval_beyond_the_axis_ends_in_an_arrow_and_keeps_its_numbers() -> None:
    far = make_pair(
        environment="far", ratio=1.3, ci95=(0.99, 9.0), ci90=(1.0, 8.0), verdict=Verdict.SLOWER
    )
    (page,) = lay_out(describe([*make_pairs(2), ComparedPair("odd", far)]))
    (arrow,) = find(page, "arrow")
    tip = max(x for x, _ in arrow.points)
    (axis,) = find(page, "axis")
    assert tip == pytest.approx(axis.end[0] - 1)
    assert max(line.end[0] for line in find(page, "thick")) == pytest.approx(tip - 2.0)
    assert "8.000" in [text.text for text in texts(page)]


def test_a_symbol_without_an_interval_is_hollow() -> None:
    pair = make_pair(ratio=1.05, n_blocks=1, verdict=Verdict.NO_INFERENCE, detail="n = 1")
    (page,) = lay_out(describe([ComparedPair("cnn", pair)]))
    (symbol,) = find(page, "symbol")
    assert (symbol.fill, symbol.edge) == (LIGHT.ground, LIGHT.colour(1))
    assert "No inference" in [text.text for text in texts(page)]
    assert any("n = 1" in text.text for text in texts(page))


def test_where_nothing_is_inferred_no_line_is_said_to_decide() -> None:
    pair = make_pair(ratio=1.05, better=None, verdict=Verdict.NO_INFERENCE, detail="no direction")
    (page,) = lay_out(describe([ComparedPair("cnn", pair)]))
    assert not any("slower" in text.text or "equivalent" in text.text for text in texts(page))


def test_themes_change_colours_and_nothing_else() -> None:
    forest = describe(make_pairs(3))
    pages = [lay_out(forest, theme=theme)[0] for theme in (LIGHT, DARK, GREY)]
    assert len({page.height for page in pages}) == 1
    assert len({tuple(text.place for text in texts(page)) for page in pages}) == 1
    assert [page.ground for page in pages] == ["#ffffff", "#14171a", "#ffffff"]
    for shape in pages[2].elements:
        for name in ("colour", "fill", "edge"):
            colour = getattr(shape, name, "")
            assert colour[1:3] == colour[3:5] == colour[5:7]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_verdict_is_a_word_or_has_one_in_the_key(width: int) -> None:
    forest = describe(make_pairs(6))
    (page,) = lay_out(forest, width)
    said = [text.text for text in texts(page)]
    assert {row.verdict for row in forest.rows} <= set(said)
    assert said.count("Equivalent") == (
        1 if width == 88 else sum(row.verdict == "Equivalent" for row in forest.rows)
    )
