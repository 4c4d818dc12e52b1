"""Figures: plain JSON that plotly accepts, with every run a point and every verdict a word."""

import json
import math
import re
from dataclasses import replace
from itertools import pairwise

import plotly.graph_objects as go
import pytest

from dashboard.charts import (
    COLOURS,
    SYMBOLS,
    Row,
    draw_bars,
    draw_equivalence,
    draw_forest,
    draw_run_order,
    draw_slopes,
    draw_step_trace,
    strip,
)
from dashboard.charts.style import close_log_range
from dashboard.drawings.runs import make_value_axis
from experiments.statistics import Sample, compare, correct_by_holm
from experiments.statistics.change_points import find
from experiments.statistics.pooling import Pooled
from experiments.statistics.values import InterimAnalysis, Stamp

MARKS = {"bare metal": 0, "Apptainer": 1, "udocker": 2}
COST = {"bare metal": 0.0, "Apptainer": 0.001, "udocker": 0.06}


SLOW_START = [0.03 + 0.0001 * (i % 7) for i in range(70)] + [
    0.02 + 0.0001 * (i % 7) for i in range(330)
]
NEVER = [0.02 + 0.0001 * (i % 7) + 0.001 * (i > 250) for i in range(400)]


def samples(n=6, *, nodes=("n1",), label=None):
    return [
        Sample(
            run=f"run-{k}-{index}",
            block=f"block {k}",
            environment=label if label and index == 2 else name,
            value=0.0229 * math.exp(COST[name] + 0.002 * ((3 * k + index) % 5)),
            node=nodes[k % len(nodes)],
            started=1_790_000_000 + 300.0 * k + 60 * ((index + k) % 3),
        )
        for k in range(n)
        for name, index in MARKS.items()
    ]


def rows(runs, *, group="cnn · 1x1", environments=("Apptainer", "udocker"), **options):
    options = {"better": "lower", "paired": True, "unit": "s", "margin": 0.02} | options
    pairs = compare(runs, baseline="bare metal", environments=environments, **options)
    return [Row(group, pair) for pair in correct_by_holm(pairs)]


def pairs(runs):
    return [row.pair for row in rows(runs)]


POOLED = Pooled(
    environment="Apptainer",
    configurations=6,
    level=0.9,
    ratio=1.01,
    interval=(1.0, 1.02),
    prediction=(0.98, 1.04),
)


def figures():
    return {
        "forest": draw_forest(rows(samples()), margin=0.02, marks=MARKS),
        "forest with a mean": draw_forest(
            rows(samples()), margin=0.02, marks=MARKS, pooled=[POOLED, replace(POOLED, ratio=None)]
        ),
        "forest of nothing": draw_forest([], margin=0.02, marks=MARKS),
        "forest without inference": draw_forest(rows(samples(1)), margin=0.02, marks=MARKS),
        "forest without runs": draw_forest(rows([]), margin=0.02, marks=MARKS),
        "strip": strip(samples(), unit="s", metric="step time", marks=MARKS),
        "strip of nothing": strip([], unit="s", metric="step time", marks=MARKS),
        "run order": draw_run_order(samples(), unit="s", metric="step time", marks=MARKS),
        "run order of nothing": draw_run_order([], unit="s", metric="step time", marks=MARKS),
        "slopes": draw_slopes(samples(), unit="s", metric="step time", marks=MARKS),
        "slopes of nothing": draw_slopes([], unit="s", metric="step time", marks=MARKS),
        "equivalence": draw_equivalence(pairs(samples()), margin=0.02, marks=MARKS),
        "equivalence of nothing": draw_equivalence([], margin=0.02, marks=MARKS),
        "equivalence without inference": draw_equivalence(
            pairs(samples(1)), margin=0.02, marks=MARKS
        ),
        "steps": draw_step_trace([2.0, 0.5] + [0.02] * 48, fixed_warm_up=10, unit="s"),
        "no steps": draw_step_trace([], fixed_warm_up=10, unit="s"),
        "fewer steps than the warm-up": draw_step_trace([0.1] * 3, fixed_warm_up=10, unit="s"),
        "steps that settle": draw_step_trace(
            SLOW_START, fixed_warm_up=10, unit="s", steady_state=find(SLOW_START)
        ),
        "steps that never do": draw_step_trace(
            NEVER, fixed_warm_up=10, unit="s", steady_state=find(NEVER)
        ),
    }


@pytest.mark.parametrize("name", figures())
def test_every_figure_is_plain_json_that_plotly_accepts(name):
    figure = figures()[name]
    text = json.dumps(figure, allow_nan=False)
    assert "bdata" not in text
    go.Figure(figure)


def words(figure):
    return [note["text"] for note in figure["layout"]["annotations"]]


def points(figure):
    return [trace for trace in figure["data"] if trace["mode"] == "markers"]


def test_the_forest_says_ratio_size_and_verdict_beside_each_row():
    text = words(draw_forest(rows(samples()), margin=0.02, marks=MARKS))
    assert any(line.startswith("<b>EQUIVALENT</b>") for line in text)
    assert any(line.startswith("<b>SLOWER</b>") for line in text)
    assert text.count("6 blocks") == 2
    pair = rows(samples())[1].pair
    assert f"{pair.ratio:.3f} [{pair.ci95[0]:.3f}, {pair.ci95[1]:.3f}]" in text


def test_the_forest_draws_the_margin_and_both_intervals_on_a_log_axis():
    figure = draw_forest(rows(samples()), margin=0.02, marks=MARKS)
    assert figure["layout"]["xaxis"]["type"] == "log"
    band, reference = figure["layout"]["shapes"]
    assert (band["x0"], band["x1"], reference["x0"]) == (1 / 1.02, 1.02, 1)
    pair = rows(samples())[0].pair
    thin, thick, point = figure["data"][:3]
    assert thin["x"] == [*pair.ci95, None]
    assert thick["x"] == [*pair.ci90, None]
    assert thin["line"]["width"] < thick["line"]["width"]
    assert point["x"] == [pair.ratio]
    low, high = figure["layout"]["xaxis"]["range"]
    assert low < math.log10(1 / 1.02)
    assert high > math.log10(rows(samples())[1].pair.ci95[1])


def test_the_stamps_stand_under_their_verdict_and_rows_never_overlap():
    short = draw_forest(rows(samples()), margin=0.02, marks=MARKS)
    stamped = draw_forest(rows(samples(3)), margin=0.02, marks=MARKS)
    assert any("PROVISIONAL" in line for line in words(stamped))
    for figure in (short, stamped):
        named = figure["layout"]["yaxis"]
        named = zip(named["tickvals"], named["ticktext"], strict=True)
        places = [place for place, text in named if not text.startswith("<b>")]
        assert all(later - sooner >= 38 for sooner, later in pairwise(places))


def test_a_long_stamp_stands_in_full_on_two_lines_that_fit_beside_the_plot():
    (row, *_) = rows(samples())
    stamps = (Stamp.NOT_AFTER_HOLM, Stamp.TAIL, Stamp.PROVISIONAL, Stamp.TRIED_AGAIN)
    row = replace(row, pair=replace(row.pair, stamps=stamps))
    (verdict,) = [
        text for text in words(draw_forest([row], margin=0.02, marks=MARKS)) if "TAIL" in text
    ]
    lines = [re.sub("<[^>]*>", "", line) for line in verdict.split("<br>")[1:]]
    printed = " ".join(lines).replace(" · ", " ")
    assert printed == " ".join(stamp.label for stamp in stamps)
    assert max(map(len, lines)) <= 34


def test_rows_of_one_group_share_a_heading():
    figure = draw_forest(
        [*rows(samples(), group="blas · 1x1"), *rows(samples(), group="cnn · 1x1")],
        margin=0.02,
        marks=MARKS,
    )
    names = figure["layout"]["yaxis"]["ticktext"]
    assert not [line for line in words(figure) if "1x1" in line]  # nothing across the plot
    assert [line for line in names if "1x1" in line] == [
        "<b>blas · 1x1</b>",
        "<b>cnn · 1x1</b>",
    ]
    taller = figure["layout"]["height"]
    assert taller > draw_forest(rows(samples()), margin=0.02, marks=MARKS)["layout"]["height"]


def test_a_row_without_inference_is_hollow_and_without_runs_only_words():
    single = draw_forest(rows(samples(1)), margin=0.02, marks=MARKS)
    assert points(single)[0]["marker"]["symbol"] == ["square-open"]
    assert words(single).count("NO INFERENCE") == 2
    none = draw_forest(rows([]), margin=0.02, marks=MARKS)
    assert all(trace["x"] == [] for trace in none["data"])
    assert words(none).count("NO INFERENCE") == 2


def test_the_sides_of_the_forest_follow_the_direction_of_the_metric():
    def title(better):
        figure = draw_forest(rows(samples(), better=better), margin=0.02, marks=MARKS)
        return figure["layout"]["xaxis"]["title"]["text"]

    assert title("lower").index("faster") < title("lower").index("slower")
    assert title("higher").index("slower") < title("higher").index("faster")


def test_two_wild_runs_do_not_squeeze_the_others():
    wild = [
        Sample(f"{k}{name}", str(k), name, value)
        for k, values in enumerate([(1.0, 1.3), (2.0, 1.2)])
        for name, value in zip(("bare metal", "udocker"), values, strict=True)
    ]
    figure = draw_forest(rows([*wild], environments=["udocker"]), margin=0.02, marks=MARKS)
    low, high = figure["layout"]["xaxis"]["range"]
    assert high - low < 0.8


@pytest.mark.parametrize("spread", [0.0004, 0.01, 0.2, 4.0])
def test_the_log_axis_has_a_few_round_ticks(spread):
    runs = [
        Sample(f"{k}{name}", str(k), name, math.exp(spread * (index / 2 + 0.1 * (k % 3))))
        for k in range(6)
        for name, index in MARKS.items()
    ]
    margin = max(spread / 2, 0.001)
    axis = draw_forest(rows(runs, margin=margin), margin=margin, marks=MARKS)["layout"]["xaxis"]
    assert 2 <= len(axis["tickvals"]) <= 9
    assert len(set(axis["ticktext"])) == len(axis["tickvals"])
    low, high = axis["range"]
    assert all(low <= math.log10(value) <= high for value in axis["tickvals"])


def test_environments_keep_their_colour_and_symbol_and_the_page_can_find_them():
    for figure in (
        strip(samples(), unit="s", metric="step time", marks=MARKS),
        draw_run_order(samples(), unit="s", metric="step time", marks=MARKS),
    ):
        found = {
            trace["meta"]["environment"]: trace
            for trace in points(figure)
            if "customdata" in trace and "environment" in trace["meta"]
        }
        assert set(found) == {0, 1, 2}
        assert found[0]["meta"]["role"] == "baseline"
        for index, trace in found.items():
            assert trace["marker"]["color"] == COLOURS[index]
            symbols = trace["marker"]["symbol"]
            assert set([symbols] if isinstance(symbols, str) else symbols) == {SYMBOLS[index]}


@pytest.mark.parametrize("draw", [strip, draw_run_order])
def test_every_run_is_a_point_that_leads_to_its_run(draw):
    figure = draw(samples(), unit="s", metric="step time", marks=MARKS)
    runs = [run for trace in points(figure) for run in trace.get("customdata", [])]
    assert sorted(runs) == sorted(sample.run for sample in samples())
    assert all(
        len(trace["x"]) == len(trace["y"]) == len(trace["text"])
        for trace in points(figure)
        if "customdata" in trace
    )


def test_one_prefix_is_chosen_for_the_axis():
    figure = strip(samples(), unit="s", metric="step time", marks=MARKS)
    assert figure["layout"]["xaxis"]["title"]["text"] == "step time (ms), log scale"
    assert all(20 < x < 30 for trace in figure["data"] for x in trace["x"])


@pytest.mark.parametrize(("draw", "name"), [(strip, "xaxis"), (draw_run_order, "yaxis")])
def test_values_have_the_axis_of_the_printed_figure(draw, name):
    chart = draw(samples(), unit="s", metric="step time", marks=MARKS)["layout"][name]
    values = [1000 * sample.value for sample in samples() if sample.started is not None]
    printed = make_value_axis("step time", "ms", values)
    assert chart["type"] == "log"
    assert [10**end for end in chart["range"]] == pytest.approx([printed.low, printed.high])
    assert tuple(zip(chart["tickvals"], chart["ticktext"], strict=True)) == printed.ticks


def test_a_value_that_is_not_positive_is_on_a_linear_axis():
    zero = [replace(sample, value=0.0) if not n else sample for n, sample in enumerate(samples())]
    axis = strip(zero, unit="s", metric="step time", marks=MARKS)["layout"]["xaxis"]
    assert ("type" in axis, axis["title"]["text"]) == (False, "step time (ms)")


def test_the_runs_of_a_block_lie_at_the_same_height():
    figure = strip(samples(), unit="s", metric="step time", marks=MARKS)
    heights = [
        [round(y - row, 9) for y in trace["y"]]
        for row, trace in enumerate(t for t in figure["data"] if "customdata" in t)
    ]
    assert heights[0] == heights[1] == heights[2]
    assert len(set(heights[0])) == 6


def test_run_order_tells_nodes_by_filling_and_leaves_out_runs_without_a_start():
    runs = samples(nodes=("n1", "n2"))
    unknown = Sample("late", "x", "udocker", 0.02, "n1", None)
    figure = draw_run_order([*runs, unknown], unit="s", metric="step time", marks=MARKS)
    assert set(figure["data"][0]["marker"]["symbol"]) == {"circle", "circle-open"}
    assert [t["name"] for t in figure["data"][3:]] == ["node n1", "node n2"]
    assert "late" not in [run for t in figure["data"][:3] for run in t["customdata"]]
    assert figure["data"][0]["mode"] == "markers"


def test_the_step_trace_shades_the_warm_up_and_keeps_the_steady_part_readable():
    values = [2.0, 0.5] + [0.020 + 0.001 * (i % 4) for i in range(48)]
    figure = draw_step_trace(values, fixed_warm_up=10, unit="s")
    (shade,) = figure["layout"]["shapes"]
    assert (shade["x0"], shade["x1"]) == (0.5, 10.5)
    assert figure["layout"]["yaxis"]["range"][1] < 30
    assert "2 steps above, up to 2000 ms" in words(figure)[0]
    medians = figure["data"][1]
    assert medians["x"][0] == 10.5
    assert len([x for x in medians["x"] if x is None]) == 4
    assert (
        "shapes" not in figure["layout"]
        or not draw_step_trace(values, fixed_warm_up=0, unit="s")["layout"]["shapes"]
    )


def test_the_step_trace_shows_what_was_found_beside_the_fixed_warm_up():
    figure = draw_step_trace(SLOW_START, fixed_warm_up=10, unit="s", steady_state=find(SLOW_START))
    shade, line = figure["layout"]["shapes"]
    assert (shade["x0"], shade["x1"]) == (0.5, 70.5)
    assert (line["name"], line["x0"], line["x1"]) == ("reference", 10.5, 10.5)
    assert words(figure) == ["warm-up", "fixed warm-up"]
    _, medians, steady = figure["data"]
    assert medians["x"][0] == steady["x"][0] == 70.5
    assert steady["x"][1] == 400.5
    assert steady["y"][0] == pytest.approx(1000 * sum(SLOW_START[70:]) / 330)


def test_notes_on_the_warm_up_have_room_on_a_phone_and_do_not_lie_on_each_other():
    values = [2.0] * 5 + NEVER
    long, fixed = draw_step_trace(values, fixed_warm_up=10, unit="s", steady_state=find(values))[
        "layout"
    ]["annotations"]
    lines = long["text"].split("<br>")
    assert len(lines) > 1
    assert max(map(len, lines)) <= 40
    assert fixed["yshift"] == -16 * len(lines), "below all lines of the other"
    assert (fixed["xanchor"], fixed["xshift"]) == ("left", 4)
    assert long["bgcolor"], "no line goes through the letters"
    assert fixed["bgcolor"]
    *_, fixed = draw_step_trace(
        values, fixed_warm_up=len(values) - 20, unit="s", steady_state=find(values)
    )["layout"]["annotations"]
    assert (fixed["xanchor"], fixed["xshift"]) == ("right", -4), "not beyond the plot's end"


def test_steps_that_never_settle_have_no_steady_mean():
    figure = draw_step_trace(NEVER, fixed_warm_up=10, unit="s", steady_state=find(NEVER))
    assert [trace["name"] for trace in figure["data"]] == ["step", "median of 10"]
    assert words(figure)[0].startswith("no steady state; slower with time")


def test_values_of_a_log_stand_at_the_last_of_their_steps():
    ends = [1, *range(10, 401, 10)]
    values = [0.03] * 8 + [0.02 + 0.0001 * (i % 7) for i in range(33)]
    figure = draw_step_trace(
        values, fixed_warm_up=0, unit="s", steady_state=find(values, ends), ends=ends
    )
    points, medians, steady = figure["data"]
    assert points["x"] == ends
    assert medians["x"][:2] == [70.5, 80.5]
    assert steady["x"] == [70.5, 400.5]


def test_a_straggler_after_the_warm_up_is_never_cut_off():
    figure = draw_step_trace([0.02] * 20 + [5.0] + [0.02] * 20, fixed_warm_up=10, unit="s")
    assert "range" not in figure["layout"]["yaxis"]


def test_names_are_text_and_never_markup():
    label = '<b onclick="x">&' + "long" * 30
    marks = {"bare metal": 0, "Apptainer": 1, label: 2}
    runs = samples(label=label)
    for figure in (
        draw_forest(
            rows(runs, environments=["Apptainer", label], group=label), margin=0.02, marks=marks
        ),
        strip(runs, unit="s", metric=label, marks=marks),
        draw_run_order(runs, unit="s", metric=label, marks=marks),
        draw_slopes(runs, unit="s", metric=label, marks=marks),
        draw_equivalence(
            [row.pair for row in rows(runs, environments=["Apptainer", label])],
            margin=0.02,
            marks=marks,
        ),
        draw_step_trace([1.0], fixed_warm_up=0, unit="s", metric=label),
    ):
        text = json.dumps(figure)
        assert "&lt;b onclick" in text
        assert "<b onclick" not in text
        assert "long" * 20 not in text


def curves(figure):
    return [trace for trace in figure["data"] if trace["mode"] == "lines"]


def test_the_equivalence_curve_crosses_the_level_at_the_smallest_provable_margin():
    found = pairs(samples())
    figure = draw_equivalence(found, margin=0.02, marks=MARKS)
    low, high = (10**end / 100 for end in figure["layout"]["xaxis"]["range"])
    assert low <= 0.001
    assert high >= 0.1
    for pair, curve, crossing in zip(found, curves(figure), figure["data"][1::2], strict=True):
        assert crossing["x"] == [100 * pair.smallest_margin]
        assert crossing["y"] == [0.05]
        assert curve["y"] == sorted(curve["y"], reverse=True)
        for margin, p in zip(curve["x"], curve["y"], strict=True):
            assert (p > 0.05) == (margin / 100 < pair.smallest_margin)


def test_the_equivalence_curve_grows_to_a_crossing_beyond_its_axis():
    wide = [
        Sample(f"{k}{name}", str(k), name, value)
        for k, values in enumerate([(1.0, 1.2), (1.0, 1.3), (1.0, 1.25)])
        for name, value in zip(("bare metal", "udocker"), values, strict=True)
    ]
    (pair,) = [row.pair for row in rows(wide, environments=["udocker"])]
    figure = draw_equivalence([pair], margin=0.02, marks=MARKS)
    assert figure["layout"]["xaxis"]["range"][1] > math.log10(100 * pair.smallest_margin)


def test_environments_of_the_equivalence_curve_differ_in_colour_and_dash():
    figure = draw_equivalence(pairs(samples()), margin=0.02, marks=MARKS)
    lines = [(trace["line"]["color"], trace["line"]["dash"]) for trace in curves(figure)]
    assert len({colour for colour, _ in lines}) == len({dash for _, dash in lines}) == 2
    assert lines[0][0] == COLOURS[1]


def judge_again(pair, alpha=0.0294):
    """Return a pair as it is after an extension: at another level than its neighbours."""
    low, high = pair.ci95
    analysis = InterimAnalysis(
        number=2,
        of=2,
        alpha=alpha,
        ci_difference=(low / 1.001, high * 1.001),
        ci_equivalence=pair.ci95,
    )
    return replace(pair, interim_analysis=analysis)


def test_the_equivalence_curve_has_a_line_for_each_level_that_names_its_environments():
    apptainer, udocker = pairs(samples())
    alone = draw_equivalence([apptainer, udocker], margin=0.02, marks=MARKS)["layout"]
    figure = draw_equivalence([judge_again(apptainer), udocker], margin=0.02, marks=MARKS)
    levels = {shape["y0"] for shape in figure["layout"]["shapes"] if shape["y0"] == shape["y1"]}
    assert levels == {0.05, 0.0294}
    texts = {
        round(10 ** note["y"], 4): note["text"]
        for note in figure["layout"]["annotations"]
        if note["text"].startswith("below")
    }
    assert texts == {
        0.05: "below: equivalent (udocker)",
        0.0294: "below: equivalent (Apptainer)",
    }
    assert {0.05, 0.0294} <= set(figure["layout"]["yaxis"]["tickvals"])
    assert [crossing["y"] for crossing in figure["data"][1::2]] == [[0.0294], [0.05]]
    assert "below: equivalent" in [note["text"] for note in alone["annotations"]]


def test_bars_say_the_level_of_each_interval_where_there_are_several():
    first, second = rows(samples())
    again = Row(first.group, judge_again(first.pair))
    figure = draw_bars([again, second], marks=MARKS, better="lower")
    assert figure["layout"]["yaxis"]["ticktext"] == [
        "bare metal, 95 %",
        "Apptainer, 97.06 %",
        "udocker, 95 %",
    ]
    hovers = {trace["name"]: trace["text"][0] for trace in figure["data"] if trace["type"] == "bar"}
    assert "97.06 % CI of the ratio" in hovers["Apptainer"]
    assert "(95 % CI of the ratio)" in hovers["udocker"]
    assert "(95 % CI of its mean)" in hovers["bare metal"]
    whiskers = {trace["name"] for trace in figure["data"] if trace["type"] == "scatter"}
    assert "Apptainer, 97.06 % interval" in whiskers
    alone = draw_bars([first, second], marks=MARKS, better="lower")
    assert alone["layout"]["yaxis"]["ticktext"] == ["bare metal", "Apptainer", "udocker"]


def test_slopes_join_the_two_values_of_each_block():
    runs = samples()
    figure = draw_slopes(runs, unit="s", metric="step time", marks=MARKS)
    value = {(s.block, s.environment): 1000 * s.value for s in runs}
    lines = curves(figure)
    assert len(lines) == 2
    for panel, (line, name) in enumerate(zip(lines, ("Apptainer", "udocker"), strict=True)):
        joined = list(zip(line["y"][::3], line["y"][1::3], strict=True))
        assert joined == [
            pytest.approx((value[f"block {k}", "bare metal"], value[f"block {k}", name]))
            for k in range(6)
        ]
        assert line["x"][:3] == [2.0 * panel, 2.0 * panel + 1, None]
    assert figure["layout"]["xaxis"].get("showticklabels", True), "the names are on the page"
    assert figure["layout"]["xaxis"]["ticktext"] == [
        "bare metal",
        "Apptainer",
        "bare metal",
        "udocker",
    ]
    assert {run for trace in points(figure) for run in trace["customdata"]} == {s.run for s in runs}


def test_slopes_of_one_ratio_are_parallel():
    """What is compared is a ratio: twice as long is as steep from 1 s as from 10 s."""
    runs = [
        Sample(f"{name}{block}", str(block), name, value * factor)
        for block, value in enumerate((1.0, 2.0, 10.0))
        for name, factor in (("bare metal", 1.0), ("udocker", 2.0))
    ]
    yaxis = draw_slopes(runs, unit="s", metric="step time", marks=MARKS)["layout"]["yaxis"]
    assert yaxis["type"] == "log"
    assert yaxis["title"]["text"].endswith("log scale")
    low, high = (10**end for end in yaxis["range"])
    assert low < 1 < 20 < high
    assert 3 <= len(yaxis["tickvals"]) <= 8


@pytest.mark.parametrize(
    "values", [(20.02, 20.11), (1.0, 1.0), (0.9, 2.4), (99.9, 100.1), (1e-5, 1e5), (3.0, 3.0001)]
)
def test_a_log_axis_for_close_values_has_round_ticks_and_little_room(values):
    low, high = values
    axis = close_log_range(low, high)
    first, last = (10**end for end in axis["range"])
    assert first < low <= high < last
    assert last / first < max((high / low) ** 1.3, (high / low) * 1.002) or high > 3 * low
    assert 2 <= len(axis["tickvals"]) <= 12
    assert all(first <= tick <= last for tick in axis["tickvals"])
    assert len(set(axis["ticktext"])) == len(axis["ticktext"])


def test_slopes_leave_out_incomplete_blocks_and_take_the_mean_of_repeats():
    runs = [
        Sample("a", "1", "bare metal", 1.0),
        Sample("b", "1", "udocker", 1.0),
        Sample("c", "1", "udocker", 4.0),
        Sample("d", "2", "bare metal", 1.0),
    ]
    (line,) = curves(draw_slopes(runs, unit="s", metric="step time", marks=MARKS))
    assert line["y"] == [pytest.approx(1.0), pytest.approx(2.0), None]


def test_headings_of_bars_stand_on_a_ground_of_their_own():
    """The lines of the grid go through the whole plot."""
    notes = draw_bars(rows(samples()), marks=MARKS, better="lower")["layout"]["annotations"]
    assert notes
    assert all(note["bgcolor"] for note in notes)


def test_a_mean_over_configurations_is_a_diamond_below_all_rows():
    figure = draw_forest(rows(samples()), margin=0.02, marks=MARKS, pooled=[POOLED])
    (diamond,) = [t for t in figure["data"] if t["name"] == "pooled, 90 % interval"]
    (dashed,) = [t for t in figure["data"] if t["name"] == "90 % prediction interval"]
    assert diamond["x"] == [1.0, 1.01, 1.02, 1.01, 1.0]
    assert dashed["x"] == [0.98, 1.04]
    assert diamond["meta"]["environment"] == MARKS["Apptainer"]
    axis = figure["layout"]["yaxis"]
    place = axis["tickvals"].index(diamond["y"][0])
    assert axis["ticktext"][place] == "Apptainer"
    assert figure["layout"]["meta"]["rows"][place] == "Pooled over configurations: Apptainer"
    others = [y for t in figure["data"] if t["name"] == "ratio" for y in t["y"]]
    assert max(others) < min(diamond["y"])
    assert max(diamond["y"]) < axis["range"][0]
    without = draw_forest(rows(samples()), margin=0.02, marks=MARKS)
    assert not [t for t in without["data"] if "pooled" in t["name"]]


def test_a_mean_without_a_finite_interval_has_no_diamond():
    odd = replace(POOLED, interval=(0.0, float("inf")))
    figure = draw_forest(rows(samples()), margin=0.02, marks=MARKS, pooled=[odd])
    assert not [t for t in figure["data"] if "pooled" in t["name"]]
