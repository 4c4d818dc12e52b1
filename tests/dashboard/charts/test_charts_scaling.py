"""Figures of scaling and of ratios as bars: the base is always printed, nothing is interpolated."""

import json
import math

import plotly.graph_objects as go
import pytest

from dashboard.charts import COLOURS, Row, draw_bars, draw_efficiency, draw_scaling
from experiments.statistics import Sample, compare
from experiments.statistics.scaling import (
    Level,
    compute_gains,
    make_level_from_moments,
    make_level_from_runs,
)

MARKS = {"bare metal": 0, "udocker": 1}
ROOT = math.sqrt(3)
MADE = "EPYC; tensorflow 2.21"
PUBLISHED = {
    "bare metal": ((1, 3710, 10), (2, 2390, 30), (4, 1860, 40)),
    "udocker": ((1, 3730, 10), (2, 2360, 16), (4, 1880, 10)),
}


def levels(names=tuple(PUBLISHED)):
    return [
        make_level_from_moments(name, gpus, mean, se * ROOT, 3)
        for name in names
        for gpus, mean, se in PUBLISHED[name]
    ]


def drawn(found, *, better="lower", batch="total", metric="time", marks=MARKS):
    return draw_scaling(found, unit="s", metric=metric, better=better, batch=batch, marks=marks)


def rows(n=3, *, group="cnn · 1x1", name="udocker"):
    samples = [
        Sample(f"{k}{arm}", str(k), arm, value * (1 + k / 1000))
        for k in range(n)
        for arm, value in (("bare metal", 0.020), (name, 0.021 + k * 1e-5))
    ]
    pairs = compare(
        samples,
        baseline="bare metal",
        environments=[name],
        margin=0.02,
        better="lower",
        paired=True,
        unit="s",
    )
    return [Row(group, pair) for pair in pairs]


def figures():
    single = [
        make_level_from_runs("bare metal", 1, [2.0]),
        make_level_from_runs("bare metal", 2, [1.1]),
    ]
    return {
        "scaling": drawn(levels()),
        "scaling of nothing": drawn([]),
        "scaling without spread": drawn(single),
        "scaling of who knows whose batch": drawn(levels(), batch=""),
        "weak scaling": drawn(levels(), batch="per GPU"),
        "efficiency": draw_efficiency(
            compute_gains(levels(), better="lower", batch="total"), marks=MARKS
        ),
        "efficiency of nothing": draw_efficiency([], marks=MARKS),
        "efficiency without spread": draw_efficiency(
            compute_gains(single, better="lower", batch="total"), marks=MARKS
        ),
        "bars": draw_bars(rows(), marks=MARKS, better="lower"),
        "bars of nothing": draw_bars([], marks=MARKS, better=None),
        "bars without inference": draw_bars(rows(1), marks=MARKS, better=None),
    }


@pytest.mark.parametrize("name", figures())
def test_every_figure_is_plain_json_that_plotly_accepts(name):
    figure = figures()[name]
    assert "bdata" not in json.dumps(figure, allow_nan=False)
    go.Figure(figure)


def words(figure):
    return [note["text"].replace("\u00a0", " ") for note in figure["layout"]["annotations"]]


def traces(figure, ending):
    return [trace for trace in figure["data"] if trace["name"].endswith(ending)]


def points(figure):
    return [trace for trace in figure["data"] if trace["mode"] == "markers"]


def test_points_are_never_joined_but_by_the_ideal_line():
    figure = drawn(levels())
    assert [trace["mode"] for trace in figure["data"]].count("markers") == 2
    for trace in traces(figure, "ideal"):
        assert trace["line"]["dash"] == "dash"
        assert trace["y"][1] == pytest.approx(trace["y"][0] / 4)
        assert trace["x"][1] == pytest.approx(4 * trace["x"][0])
    for trace in traces(figure, "95 % interval"):
        assert trace["x"][2::3] == [None] * 3  # one vertical line a point
        assert trace["x"][::3] == trace["x"][1::3]


def test_weak_scaling_asks_for_the_same_time_and_nobody_knows_without_the_batch():
    (line, _) = traces(drawn(levels(), batch="per GPU"), "ideal")
    assert line["y"][0] == line["y"][1]
    assert traces(drawn(levels(), batch=""), "ideal") == []
    (line, _) = traces(drawn(levels(), batch="", better="higher"), "ideal")
    assert line["y"][1] == pytest.approx(4 * line["y"][0])


def test_an_environment_stands_aside_together_with_its_ideal_and_its_tick_is_the_nearest():
    figure = drawn(levels())
    assert figure["layout"]["xaxis"]["tickvals"] == [1, 2, 4]
    for trace, line in zip(points(figure), traces(figure, "ideal"), strict=True):
        assert trace["x"][0] == line["x"][0]
        for x, gpus in zip(trace["x"], (1, 2, 4), strict=True):
            assert abs(x / gpus - 1) < 0.2
            assert min((1, 2, 4), key=lambda tick: abs(tick - x)) == gpus
    assert figure["layout"]["meta"]["x"] == "GPUs"


def test_the_absolute_base_is_printed_with_its_interval_n_machine_and_framework():
    text = " ".join(
        words(drawn([make_level_from_runs("bare metal", 1, [1.0, 1.1, 1.2], made_with=MADE)]))
    )
    assert "bare metal 1.097 s [0.875, 1.376], n = 3, 1 GPU" in text
    assert MADE in text
    text = " ".join(words(drawn([Level(environment="bare metal", gpus=2, mean=51.0)])))
    assert "bare metal 51.00 s (n not stated), 2 GPUs" in text
    assert "machine and framework not stated" in text


def test_bases_stand_in_the_order_of_their_symbols():
    found = [
        make_level_from_runs("udocker", 1, [1.0, 1.1]),
        make_level_from_runs("bare metal", 2, [1.0, 1.1]),
    ]
    lines = [line.split()[0] for line in words(drawn(found)) if " n = " in line]
    assert lines == ["bare", "udocker"]


@pytest.mark.parametrize(("fast", "slow"), [(1.17, 2.7), (1600, 4200), (0.9, 1.1), (1, 1000)])
def test_the_log_axis_has_a_few_round_ticks(fast, slow):
    figure = drawn(
        [
            make_level_from_runs("bare metal", 1, [slow]),
            make_level_from_runs("bare metal", 2, [fast]),
        ]
    )
    axis = figure["layout"]["yaxis"]
    assert 2 <= len(axis["tickvals"]) <= 9
    assert all(
        10 ** axis["range"][0] <= tick <= 10 ** axis["range"][1] for tick in axis["tickvals"]
    )


def test_a_level_without_spread_is_hollow_and_has_no_interval():
    found = [
        make_level_from_runs("bare metal", 1, [2.0, 2.1]),
        make_level_from_runs("bare metal", 2, [1.1]),
    ]
    (trace,) = points(drawn(found))
    assert trace["marker"]["symbol"] == ["circle", "circle-open"]
    (interval,) = traces(drawn(found), "95 % interval")
    assert interval["x"] == [1, 1, None]


def test_efficiency_is_a_share_of_the_ideal_from_zero_with_its_interval():
    found = compute_gains(levels(["bare metal"]), better="lower", batch="total")
    figure = draw_efficiency(found, marks=MARKS)
    (trace,) = points(figure)
    assert trace["y"] == [pytest.approx(77.61, abs=0.01), pytest.approx(49.87, abs=0.01)]
    (interval,) = traces(figure, "95 % interval")
    assert interval["y"][3:5] == [pytest.approx(45.55, abs=0.01), pytest.approx(54.59, abs=0.01)]
    low, high = figure["layout"]["yaxis"]["range"]
    assert low == 0
    assert high > 100
    assert figure["layout"]["shapes"][0]["y0"] == 100


def test_bars_begin_at_zero_and_the_baselines_own_uncertainty_is_drawn():
    figure = draw_bars(rows(), marks=MARKS, better="lower")
    (pair,) = [row.pair for row in rows()]
    base, _, candidate, whisker = figure["data"]
    assert figure["layout"]["xaxis"]["range"][0] == 0
    assert (base["x"], candidate["x"]) == ([1], [pair.ratio])
    assert whisker["x"] == [*pair.ci95, None]
    own = figure["data"][1]["x"]
    assert own[0] < 1 < own[1]
    expected = make_level_from_moments(
        "bare metal", 1, pair.baseline_mean, pair.baseline_sd, 3
    ).ci95
    assert own[:2] == [end / pair.baseline_mean for end in expected]
    assert candidate["marker"]["color"] == COLOURS[1]
    assert whisker["meta"] == {"role": "ink"}


def test_bars_print_what_one_is_under_each_group_and_name_the_rows_of_their_table():
    figure = draw_bars(
        [*rows(group="a · 1x1"), *rows(group="b · 1x2")], marks=MARKS, better="lower"
    )
    text = words(figure)
    assert text[0] == "<b>a · 1x1</b>"
    assert text[1] == "1 = bare metal, 20.020 ± 0.020 ms (SD, n = 3)"
    assert figure["layout"]["meta"]["rows"] == [
        "a · 1x1: bare metal",
        "a · 1x1: udocker",
        "b · 1x2: bare metal",
        "b · 1x2: udocker",
    ]
    assert len(figure["layout"]["yaxis"]["tickvals"]) == 4


def test_bars_without_inference_have_no_whisker():
    figure = draw_bars(rows(1), marks=MARKS, better=None)
    assert [trace["x"] for trace in figure["data"][1::2]] == [[], []]
    assert figure["layout"]["xaxis"]["title"]["text"] == "ratio to bare metal"


def test_names_are_text_and_never_markup():
    label = '<b onclick="x">&' + "long" * 30
    marks = {"bare metal": 0, label: 1}
    found = [
        make_level_from_runs(label, gpus, [1.0, 1.1], made_with=label, scale=label)
        for gpus in (1, 2)
    ]
    for figure in (
        drawn(found, metric=label, marks=marks),
        draw_efficiency(compute_gains(found, better="lower", batch="total"), marks=marks),
        draw_bars(rows(group=label, name=label), marks=marks, better="lower"),
    ):
        text = json.dumps(figure)
        assert "&lt;b" in text
        assert "<b onclick" not in text
        assert "long" * 20 not in text
