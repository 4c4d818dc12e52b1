"""Forest plots of many comparisons: configurations down, environments across, one scale."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.drawings.elements import Drawing, Element, Line, Polygon
from dashboard.drawings.forest import Forest, change_names
from dashboard.drawings.forest_figures import lay_out_forest
from dashboard.drawings.forest_matrix import MatrixLayout
from dashboard.drawings.forest_pages import break_matrix, is_matrix, list_page_heights
from dashboard.drawings.themes import DARK, GREY, LIGHT
from dashboard.drawings.typeface import clean
from experiments.statistics import Verdict
from tests.dashboard.drawings.examples import NAMES, describe, get_typeface, make_pairs
from tests.dashboard.drawings.test_forest_layout import check_pages, find, texts

EIGHTEEN = 18


def make_forest(groups: int = EIGHTEEN, environments: int = 3) -> Forest:
    return describe(make_pairs(groups, environments=NAMES[1 : 1 + environments]))


def lay_out(forest: Forest, theme=LIGHT) -> list[Drawing]:  # type: ignore[no-untyped-def]
    return lay_out_forest(forest, width=180, theme=theme, type_=get_typeface())


def test_of_25_comparisons_and_more_environments_stand_across_on_two_columns() -> None:
    assert not is_matrix(make_forest(8), 180), "24 have a row each"
    assert is_matrix(make_forest(9), 180)
    assert not is_matrix(make_forest(9), 88), "no room across"
    assert not is_matrix(make_forest(40, 1), 180), "one environment has nothing across"
    forest = make_forest()
    more = tuple(replace(row, environment=f"{row.environment} {row.group}") for row in forest.rows)
    assert not is_matrix(replace(forest, rows=more), 180), "no room for so many across"


def test_rows_with_margins_of_their_own_keep_a_row_each() -> None:
    forest = make_forest()
    odd = replace(forest, rows=tuple(replace(row, margin=(0.9, 1.1)) for row in forest.rows))
    assert not is_matrix(odd, 180)


@pytest.mark.parametrize("groups", [9, 18, 20, 72, 200])
@pytest.mark.parametrize("environments", [2, 3, 4])
def test_nothing_overlaps_and_pages_are_known(groups: int, environments: int) -> None:
    forest = make_forest(max(groups, 13), environments)
    pages = lay_out(forest)
    check_pages(pages)
    heights = list_page_heights(forest)
    assert [wide > 0 for _, wide, _ in heights].count(True) == len(pages)
    for page, (_, wide, _) in zip(pages, heights, strict=False):
        assert page.height == pytest.approx(wide, abs=6), "what a browser keeps free for it"


def test_eighteen_configurations_are_less_than_half_a_page_of_a_journal() -> None:
    (page,) = lay_out(make_forest())
    assert page.height < 110


def test_each_mark_stands_where_its_ratio_is_on_its_axis() -> None:
    forest = make_forest()
    layout = MatrixLayout(forest, 180, LIGHT, get_typeface())
    (page,) = layout.make_pages()
    places = {part.name: part.places for part in layout.parts}
    marked = [symbol for symbol in find(page, "symbol") if isinstance(symbol, Polygon)]
    drawn = sorted(round(sum(x for x, _ in s.points) / len(s.points), 3) for s in marked)
    expected = sorted(
        round(places[row.environment].find_x(row.ratio), 3) for row in forest.rows if row.ratio
    )
    assert drawn == pytest.approx(expected, abs=0.02)
    widths = {round(each.right - each.left, 6) for each in places.values()}
    assert len(widths) == 1, "one scale for all environments"


def test_every_comparison_has_its_ratio_a_sign_and_a_count_in_the_key() -> None:
    forest = make_forest()
    (page,) = lay_out(forest)
    written = [text.text for text in texts(page)]
    for row in forest.rows:
        assert row.ratio_text in written
    equivalent = sum(row.sign == Verdict.EQUIVALENT for row in forest.rows)
    assert f"Equivalent ({equivalent})" in written
    for name in NAMES[1:4]:
        assert name in written
    bars = [line for line in find(page, "glyph") if isinstance(line, Line)]
    assert len(bars) >= 2 * equivalent


def test_themes_change_colours_alone() -> None:
    forest = make_forest()
    pages = [page for theme in (LIGHT, DARK, GREY) for page in lay_out(forest, theme)]
    shapes = [[describe_shape(element) for element in page.elements] for page in pages]
    assert shapes[0] == shapes[1] == shapes[2]
    assert pages[0].elements != pages[1].elements


def describe_shape(element: Element) -> dict[str, Any]:
    """Return all of an element but its colours."""
    colours = ("colour", "fill", "edge")
    return {name: value for name, value in asdict(element).items() if name not in colours}


def test_a_missing_comparison_leaves_its_place_empty() -> None:
    forest = make_forest()
    fewer = replace(forest, rows=forest.rows[1:])
    (lines,) = break_matrix(fewer)
    assert len(lines) == EIGHTEEN
    assert len(lines[0].rows) == 2
    check_pages(lay_out(fewer))


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=120), st.text(max_size=60))
def test_nothing_overlaps_whatever_things_are_called(before: str, name: str) -> None:
    forest = make_forest()
    names = {row.environment for row in forest.rows}

    def change(text: str) -> str:
        return clean(text if text not in names else f"{text}{name}") or "x"

    renamed = change_names(forest, change)
    renamed = replace(
        renamed,
        rows=tuple(replace(row, group=clean(f"{before} {row.group}")) for row in renamed.rows),
    )
    check_pages(lay_out(renamed))


def test_of_one_environment_each_configuration_takes_one_line_on_two_columns() -> None:
    forest = make_forest(EIGHTEEN, 1)
    (page,) = lay_out(forest)
    check_pages([page])
    assert page.height < 100
    written = [text.text for text in texts(page)]
    assert "Configuration" in written
    assert written.count(NAMES[1]) == 1, "the heading of all rows"
    for row in forest.rows:
        assert row.group in written
    ((_, wide, narrow), *_) = list_page_heights(forest)
    assert page.height == pytest.approx(wide, abs=5)
    assert narrow > 1.5 * wide, "one column keeps a heading for each"
