"""The verdict matrix and the sentence above it: pure functions of a comparison."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.comparisons.diagnosis import diagnose
from dashboard.comparisons.verdict_matrix import choose_scale, make_bar, make_verdict_matrix
from experiments.comparisons import Comparison, Group
from experiments.statistics import Measured, Pair, Sample, Verdict
from experiments.statistics.values import Interval

STEP_TIME = Measured("step_time", "s", "lower", "Time per step")
RATIOS = st.floats().map(abs)


def pair(
    environment: str,
    verdict: Verdict = Verdict.EQUIVALENT,
    ratio: float | None = 1.0,
    interval: Interval | None = (0.99, 1.01),
    *,
    blocks: int = 8,
) -> Pair:
    return Pair(
        baseline="bare",
        environment=environment,
        unit="s",
        better="lower",
        margin=0.02,
        paired=True,
        n_blocks=blocks,
        n_baseline=blocks,
        n_environment=blocks,
        baseline_mean=0.1824,
        baseline_sd=0.0009,
        ratio=ratio,
        ci95=interval,
        ci90=interval,
        verdict=verdict,
        claim=f"{environment} is what it is",
        evidence=" (by this).",
    )


def slower(environment: str, ratio: float) -> Pair:
    return pair(environment, Verdict.SLOWER, ratio, (ratio - 0.005, ratio + 0.005))


def group(pairs: list[Pair], samples: list[Sample] | None = None, **configuration: str) -> Group:
    labels = configuration or {"workload": "cnn", "scale": "1x1"}
    return Group(labels, STEP_TIME, samples or [], pairs)


def comparison(*groups: Group, environments: tuple[str, ...] = ("box", "tub")) -> Comparison:
    return Comparison("k", "What?", 0.02, True, ["bare", *environments], list(groups))


def test_every_pair_has_its_cell_in_the_row_of_its_configuration() -> None:
    made = make_verdict_matrix(
        comparison(
            group([pair("box"), slower("tub", 1.05)]),
            group([slower("tub", 1.06)], workload="blas", scale="1x4"),
        )
    )
    assert made.environments == [("box", 1), ("tub", 2)]
    assert [(row.number, row.name) for row in made.rows] == [(1, "cnn, 1x1"), (2, "blas, 1x4")]
    verdicts = [[cell.pair and cell.pair.verdict for cell in row.cells] for row in made.rows]
    assert verdicts == [["EQUIVALENT", "SLOWER"], [None, "SLOWER"]]
    assert made.rows[0].baseline == "182.40 ± 0.90 ms"
    assert (made.metric, made.rows[0].metric) == ("Time per step", "")


def test_the_size_stands_only_where_it_is_not_the_usual_one() -> None:
    made = make_verdict_matrix(
        comparison(group([pair("box"), pair("tub")]), group([pair("box"), pair("tub", blocks=6)]))
    )
    assert made.size == "8 blocks"
    assert [cell.size for row in made.rows for cell in row.cells] == ["", "", "", "n = 6"]


def test_before_the_verdict_a_cell_says_how_far_it_is() -> None:
    runs = [
        Sample(f"{name}{k}", str(k), name, 0.02 + k / 1000)
        for k in range(3)
        for name in ("bare", "box")
    ]
    made = make_verdict_matrix(comparison(group([], runs)), planned_blocks=8)
    assert [cell.text for cell in made.rows[0].cells] == ["3 of 8 blocks", "0 of 8 blocks"]
    assert made.rows[0].baseline == "21.0 ± 1.0 ms"
    assert not made.has_verdicts


def test_all_bars_share_one_logarithmic_scale() -> None:
    pairs = [pair("box"), slower("tub", 1.25), pair("far", ratio=0.8, interval=(0.79, 0.81))]
    scale = choose_scale(pairs, 0.02)
    up, down = scale.place(1.25) - scale.one, scale.one - scale.place(0.8)
    assert up == pytest.approx(down, abs=0.02), "a ratio and its inverse are as far from 1"
    bar = make_bar(pairs[1], scale)
    assert bar
    assert bar.thin
    assert bar.thin[0] < bar.ratio < bar.thin[1]
    assert scale.band < scale.one < scale.band + scale.band_width


def test_an_interval_beyond_the_scale_is_cut_and_said_to_be() -> None:
    wide = pair("box", ratio=1.5, interval=(0.01, 40.0))
    bar = make_bar(wide, choose_scale([wide], 0.02))
    assert bar
    assert bar.thin == (0, 100)
    assert (bar.continues_left, bar.continues_right) == (True, True)
    assert make_bar(replace(wide, ratio=None), choose_scale([], 0.02)) is None
    alone = make_bar(pair("box", interval=None), choose_scale([], 0.02))
    assert alone
    assert (alone.thin, alone.thick) == (None, None)


@given(ratio=RATIOS, low=RATIOS, high=RATIOS, margin=st.floats(1e-6, 10.0))
def test_no_number_leaves_the_drawing(ratio: float, low: float, high: float, margin: float) -> None:
    odd = pair("box", Verdict.NO_INFERENCE, ratio, (low, high))
    bar = make_bar(odd, choose_scale([odd], margin))
    if bar is None:
        assert math.isnan(ratio)
        return
    places = [bar.ratio, *(bar.thin or ()), *(bar.thick or ())]
    assert all(0 <= place <= 100 for place in places)


def sentence(*groups: Group) -> str:
    said = diagnose(comparison(*groups))
    assert said
    return said.sentence


def test_one_pair_keeps_its_own_sentence_and_none_has_none() -> None:
    assert sentence(group([pair("box")])) == "box is what it is (by this)."
    assert diagnose(comparison(group([]))) is None


def test_equivalence_everywhere_is_said_first_and_together() -> None:
    assert sentence(group([slower("a", 1.05), pair("box"), pair("tub")])) == (
        "Box and tub are equivalent to bare within 2 %; a is 5.0 % slower than bare."
    )


def test_what_is_usual_is_said_with_its_extent_and_where_it_is_so() -> None:
    groups = [
        group([slower("tub", 1.039)], workload="cnn", scale="1x1"),
        group([slower("tub", 1.063)], workload="cnn", scale="1x4"),
        group([pair("tub")], workload="blas", scale="1x1"),
    ]
    assert sentence(*groups) == (
        "Tub is 3.9 % to 6.3 % slower than bare in 2 of 3 configurations (those with cnn), "
        "equivalent in 1."
    )


def test_what_no_label_explains_is_put_down_to_none() -> None:
    groups = [
        group([slower("tub", 1.05)], workload="cnn", scale="1x1"),
        group([pair("tub", Verdict.INCONCLUSIVE, 1.01)], workload="cnn", scale="1x4"),
        group([slower("tub", 1.05)], workload="blas", scale="1x4"),
    ]
    assert sentence(*groups) == (
        "Tub is 5.0 % slower than bare in 2 of 3 configurations, inconclusive in 1."
    )


def test_of_many_environments_the_verdicts_are_counted() -> None:
    pairs = [slower(f"e{k}", 1.05) for k in range(5)]
    assert sentence(group([*pairs, pair("box", Verdict.INCONCLUSIVE)])) == (
        "6 environments are slower in 5 and inconclusive in 1 of 6 comparisons."
    )


@given(
    st.lists(
        st.tuples(st.text(min_size=1), st.sampled_from(list(Verdict)), st.floats(0.1, 10.0)),
        min_size=2,
        max_size=40,
    )
)
def test_any_comparison_has_one_sentence(found: list[tuple[str, Verdict, float]]) -> None:
    pairs = [
        pair(name, verdict, ratio, (ratio * 0.9, ratio * 1.1)) for name, verdict, ratio in found
    ]
    said = sentence(group(pairs[::2]), group(pairs[1::2], workload="b", scale="s"))
    assert said.endswith(".")
    assert "None" not in said.replace("".join(name for name, _, _ in found), "")
