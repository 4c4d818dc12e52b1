"""The description of a forest plot has the statistics' numbers and says what decides."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.comparisons.forest_figure import write_caption
from dashboard.drawings.forest import (
    BEYOND,
    SEE_TABLE,
    ComparedPair,
    change_names,
    choose_ticks,
    write_ratio,
)
from dashboard.drawings.forest_json import read_forest, write_forest
from dashboard.drawings.forest_pages import break_pages
from experiments.statistics import Pair, Verdict
from experiments.statistics.margins import Margin
from experiments.statistics.values import InterimAnalysis, Stamp
from tests.dashboard.drawings.examples import describe, make_pairs


def make_pair(**values) -> Pair:
    known = {"baseline": "bare metal", "environment": "Apptainer", "unit": "s", "better": "lower"}
    return Pair(**{**known, "margin": 0.02, "paired": True} | values)


def row_of(**values):
    (row,) = describe([ComparedPair("cnn", make_pair(**values))]).rows
    return row


def test_every_row_has_the_numbers_of_its_pair() -> None:
    compared = make_pairs(6)
    forest = describe(compared)
    assert len(forest.rows) == 18
    for row, one in zip(forest.rows, compared, strict=True):
        pair = one.pair
        assert (row.group, row.environment) == (one.group, pair.environment)
        assert (row.ratio, row.thick, row.thin) == (pair.ratio, pair.ci90, pair.ci95)
        assert row.verdict.upper() == pair.verdict
        assert row.ratio_text == f"{pair.ratio:.3f}"
        assert (row.low_text, row.high_text) == tuple(f"{end:.3f}" for end in pair.ci90 or ())
        assert row.size_text == "8"
        assert row.nodes_text == "4"
        assert row.mark == 1 + ("Apptainer", "udocker", "Charliecloud").index(pair.environment)
    assert forest.axis_title == "Time per step, ratio to bare metal (log)"
    assert forest.description.startswith("18 comparisons: ")


def test_the_thick_interval_decides_equivalence_and_the_thin_one_differences() -> None:
    decided = {row.verdict: row.decided_by for row in describe(make_pairs(6)).rows}
    assert decided == {
        "Equivalent": "thick",
        "Slower": "thin",
        "Faster": "thin",
        "Inconclusive": "",
    }


def test_the_margin_is_written_as_the_band_that_it_is() -> None:
    forest = describe(make_pairs(1))
    assert forest.margin_text == "1/1.02 to 1.02"
    assert forest.band == (1 / 1.02, 1.02)


def test_a_margin_that_has_no_common_band_is_not_announced_as_shaded() -> None:
    """“Slower” lies on the other side of 1 where higher is better."""
    margin = Margin(slower=0.05, faster=0.02)
    pairs = [
        ComparedPair("cnn", make_pair(ratio=1.01, ci90=(1.0, 1.02), better=better))
        for better in ("lower", "higher")
    ]
    forest = describe(pairs, margin=margin)
    assert not forest.has_band
    assert forest.margin_text.endswith(", not shaded")
    assert "Shaded" not in write_caption(forest)
    assert "not shaded" in write_caption(forest)
    alone = describe(pairs[:1], margin=margin)
    assert alone.has_band
    assert "Shaded: margin" in write_caption(alone)


def test_intervals_of_planned_interim_analyses_have_their_own_levels() -> None:
    analysis = InterimAnalysis(
        number=1, of=2, alpha=0.03, ci_difference=(0.98, 1.06), ci_equivalence=(0.99, 1.05)
    )
    pair = make_pair(ratio=1.02, ci95=(0.99, 1.04), ci90=(1.0, 1.03), interim_analysis=analysis)
    forest = describe([ComparedPair("cnn", pair)])
    assert (forest.thick_level, forest.thin_level) == ("94 %", "97 %")
    assert (forest.rows[0].thick, forest.rows[0].thin) == ((0.99, 1.05), (0.98, 1.06))


@pytest.mark.parametrize(("better", "sides"), [("lower", ("faster", "slower")), (None, ("", ""))])
def test_the_sides_say_what_a_larger_ratio_means(better, sides) -> None:
    assert describe(make_pairs(1, better=better)).sides == sides
    assert describe(make_pairs(1, better="higher")).sides == ("slower", "faster")


def test_memory_and_energy_are_more_or_less_in_every_word_of_the_figure() -> None:
    margin = Margin.make("not slower", 0.02)
    verdicts = (Verdict.NOT_SLOWER, Verdict.SLOWER, Verdict.FASTER)
    known = {"ratio": 1.0, "ci95": (0.99, 1.01), "ci90": (0.995, 1.005), "goal": margin.goal}
    compared = [
        ComparedPair("cnn", make_pair(unit="B", verdict=verdict, **known)) for verdict in verdicts
    ]
    forest = describe(compared, margin=margin)
    assert [row.verdict for row in forest.rows] == ["Not more", "More", "Less"]
    assert [row.sign for row in forest.rows] == list(verdicts)
    assert forest.sides == ("less", "more")
    assert forest.description == "3 comparisons: 1 not more, 1 more, 1 less."
    caption = write_caption(forest).replace("\N{NO-BREAK SPACE}", " ")
    assert "Not more: the 90 % interval lies inside the margin. More, less: the 95 %" in caption
    assert read_forest(write_forest(forest)) == forest


def test_a_figure_of_memory_and_times_says_each_row_in_its_own_words() -> None:
    known = {"ratio": 1.1, "ci95": (1.05, 1.15), "ci90": (1.06, 1.14), "verdict": Verdict.SLOWER}
    compared = [ComparedPair("cnn", make_pair(unit=unit, **known)) for unit in ("s", "J")]
    forest = describe(compared, margin=Margin(slower=0.05, faster=0.02))
    assert [row.verdict for row in forest.rows] == ["Slower", "More"]
    assert forest.sides == ("better", "worse")
    assert "Slower, faster, more, less: the 95" in write_caption(forest)


def test_nothing_is_lost_of_a_row_without_inference() -> None:
    row = row_of(ratio=1.05, n_blocks=1, verdict=Verdict.NO_INFERENCE, detail="n = 1")
    assert (row.ratio_text, row.thick, row.low_text) == ("1.050", None, "")
    assert row.notes == ("n = 1",)
    row = row_of(detail="no run of Apptainer")
    assert (row.ratio, row.ratio_text, row.cost_text, row.size_text) == (None, "–", "–", "–")
    assert row.notes == ("no run of Apptainer",)


def test_many_different_reasons_are_left_to_the_table() -> None:
    compared = [ComparedPair("cnn", make_pair(detail=f"no run of {i}")) for i in range(60)]
    forest = describe(compared)
    assert forest.notes == (("a", SEE_TABLE),)
    assert forest.rows[59].notes == ("no run of 59",)


def test_stamps_are_notes_in_words_with_a_letter_each() -> None:
    (compared,) = make_pairs(1, environments=["Apptainer"])
    stamped = replace(compared.pair, stamps=(Stamp.NOT_AFTER_HOLM, Stamp.OUTLIER_SENSITIVE))
    other = replace(compared.pair, stamps=(Stamp.OUTLIER_SENSITIVE,))
    forest = describe([ComparedPair("cnn", stamped), ComparedPair("cnn", other)])
    assert [row.letters for row in forest.rows] == ["a,b", "b"]
    assert forest.notes == (
        ("a", "not significant after Holm correction"),
        ("b", "outlier-sensitive"),
    )


@pytest.mark.parametrize("odd", [math.nan, math.inf, 0.0, -1.0])
def test_what_has_no_place_on_a_log_axis_is_no_number(odd) -> None:
    row = row_of(ratio=odd, ci95=(math.nan, 1.0), ci90=(odd, math.nan))
    assert (row.ratio, row.thick, row.thin, row.ratio_text) == (None, None, None, "–")


def test_an_odd_comparison_does_not_stretch_the_axis_of_all() -> None:
    far = make_pair(ratio=20.0, ci95=(18.0, 23.0), ci90=(19.0, 22.0), verdict=Verdict.SLOWER)
    forest = describe([*make_pairs(3), ComparedPair("odd", far)])
    assert forest.high < 2.3
    row = forest.rows[-1]
    assert (row.is_outside, row.cut_low, row.cut_high) == (True, False, True)
    assert BEYOND in row.notes
    assert row.ratio_text == "20.0"
    alone = describe([ComparedPair("odd", far)])
    assert alone.low < 1 < 20 < alone.high


ENDS = st.floats(1e-6, 1e6)


@given(st.lists(st.tuples(ENDS, ENDS, ENDS), max_size=8), st.floats(0.001, 3))
def test_the_axis_always_holds_the_margin_and_has_few_ticks_inside(ratios, margin) -> None:
    compared = []
    for values in ratios:
        low, ratio, high = sorted(values)
        pair = make_pair(ratio=ratio, ci95=(low, high), ci90=(low, high), margin=margin)
        compared.append(ComparedPair("cnn", pair))
    forest = describe(compared, margin=margin)
    low, high = forest.band
    assert forest.low <= low < high <= forest.high
    for ticks, most in ((forest.ticks, 8), (forest.few_ticks, 4)):
        assert 1 <= len(ticks) <= most
        assert len({text for _, text in ticks}) == len(ticks)
        assert all(forest.low <= value <= forest.high for value, _ in ticks)
        assert any(value == pytest.approx(1) for value, _ in ticks)
    assert read_forest(write_forest(forest)) == forest


def test_ticks_are_round() -> None:
    assert [text for _, text in choose_ticks(0.955, 1.105, 8)] == [
        "0.96", "0.98", "1.00", "1.02", "1.04", "1.06", "1.08", "1.10",
    ]  # fmt: skip
    assert [text for _, text in choose_ticks(0.4, 12, 8)] == ["0.5", "1", "2", "5", "10"]


def test_numbers_of_any_size_stay_short() -> None:
    values = (None, 1.0, 0.99951, 12.345, 999.9, 1e80, 1e-9)
    texts = [write_ratio(value, 3) for value in values]
    assert texts == ["–", "1.000", "1.000", "12.3", "999.9", "1.0e+80", "1.0e−09"]


@pytest.mark.parametrize(("groups", "pages"), [(1, 1), (6, 1), (20, 2), (72, 6)])
def test_pages_hold_every_row_once_and_groups_together(groups, pages) -> None:
    forest = describe(make_pairs(groups, blocks=3))
    broken = break_pages(forest)
    assert len(broken) == pages
    assert [row for page in broken for block in page for row in block.rows] == list(forest.rows)
    headings = [block.heading for page in broken for block in page]
    assert len(headings) == groups


def test_a_group_that_is_too_tall_goes_on_under_its_heading() -> None:
    forest = describe(make_pairs(1, environments=[f"environment {i}" for i in range(120)]))
    assert [len(page) for page in break_pages(forest)] == [1, 1, 1]


def test_names_are_changed_wherever_they_stand() -> None:
    compared = [
        ComparedPair("emmy's cnn", make_pair(environment="emmy's", detail="no run of emmy"))
    ]
    forest = describe(compared, baseline="emmy", metric="emmy's time")
    assert "emmy" not in write_forest(change_names(forest, lambda text: text.replace("emmy", "x")))
