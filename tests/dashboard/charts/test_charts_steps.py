"""Figures of what is inside the runs: the ECDF's tail, losses, accuracies."""

import json

import plotly.graph_objects as go
import pytest

from dashboard.charts import COLOURS, draw_accuracy_curves, draw_loss_curves, draw_tails
from experiments.statistics.steps import Curve, pool_steps

MARKS = {"bare metal": 0, "Apptainer": 1}
STEPS = [0.020, 0.021, 0.022, 0.030]


def found(environment="bare metal", runs=(STEPS,)):
    return pool_steps(environment, runs)


def curves(names=("bare metal", "Apptainer"), n=2):
    return [
        Curve(name, [1, 2, 3], [2.0, 1.0 + number / 10, 0.5], f"run-{name}-{number}")
        for name in names
        for number in range(n)
    ]


def figures():
    marks = MARKS
    median = [Curve("bare metal", [1, 2], [2.0, 1.05])]
    words = {"metric": "loss", "unit": "1", "marks": marks}
    return {
        "tails": draw_tails([found()], unit="s", metric="step time", marks=marks),
        "tails of nothing": draw_tails([], unit="s", metric="step time", marks=marks),
        "losses": draw_loss_curves(curves(), median, **words),
        "losses of nothing": draw_loss_curves([], [], **words),
        "a loss of zero": draw_loss_curves([Curve("bare metal", [1], [0.0], "r")], [], **words),
        "accuracies": draw_accuracy_curves(curves(), metric="accuracy", marks=marks, target=0.7),
        "accuracies of nothing": draw_accuracy_curves([], metric="accuracy", marks=marks),
    }


@pytest.mark.parametrize("name", figures())
def test_every_figure_is_plain_json_that_plotly_accepts(name):
    figure = figures()[name]
    assert "bdata" not in json.dumps(figure, allow_nan=False)
    go.Figure(figure)


def test_the_tail_is_a_staircase_from_all_steps_to_the_longest_one():
    figure = draw_tails([found(), found("Apptainer")], unit="s", metric="step time", marks=MARKS)
    first, second = figure["data"]
    assert first["x"] == pytest.approx([20, 21, 22, 30])
    assert first["y"] == [100, 75, 50, 25]
    assert first["line"]["shape"] == "vh"
    assert figure["layout"]["xaxis"]["title"]["text"] == "step time (ms)"
    assert [t["line"]["color"] for t in (first, second)] == list(COLOURS[:2])
    assert first["line"]["dash"] != second["line"]["dash"]


def test_a_run_is_a_thin_line_that_leads_to_it_and_the_median_a_thick_one():
    median = Curve("Apptainer", [1, 2, 3], [2.0, 1.05, 0.5])
    figure = draw_loss_curves(curves(), [median], metric="loss", unit="1", marks=MARKS)
    bare, box, middle = figure["data"]
    assert bare["x"] == [1, 2, 3, None, 1, 2, 3, None]
    assert bare["customdata"][:4] == ["run-bare metal-0"] * 3 + [""]
    assert box["line"]["width"] < middle["line"]["width"]
    assert middle["y"] == [2.0, 1.05, 0.5]
    assert figure["layout"]["yaxis"]["type"] == "log"


def test_accuracies_are_per_cent_against_seconds_with_the_target_across():
    figure = draw_accuracy_curves(
        [Curve("Apptainer", [0.4, 0.8], [0.5, 0.75], "r")],
        metric="accuracy",
        marks=MARKS,
        target=0.7,
    )
    (line,) = figure["data"]
    assert (line["x"], line["y"]) == ([400, 800, None], [50, 75, None])
    (target,) = figure["layout"]["shapes"]
    assert target["y0"] == pytest.approx(70)
    assert figure["layout"]["annotations"][0]["text"] == "target 70 %"


def test_names_are_text_and_never_markup():
    label = '<b onclick="x">&' + "long" * 30
    marks = {label: 0}
    for figure in (
        draw_tails([found(label)], unit="s", metric=label, marks=marks),
        draw_loss_curves(
            curves((label,)), curves((label,), 1), metric=label, unit=label, marks=marks
        ),
        draw_accuracy_curves(curves((label,)), metric=label, marks=marks),
    ):
        text = json.dumps({**figure, "data": [{**t, "customdata": []} for t in figure["data"]]})
        assert "&lt;b onclick" in text
        assert "<b onclick" not in text
        assert "long" * 20 not in text


def test_seconds_have_one_prefix_on_all_pages():
    """The run's own page draws them in ms; a slow first step decides nothing."""
    times = [Curve("bare metal", [1, 2, 3], [2.0, 0.020, 0.021], "r")]
    figure = draw_loss_curves(times, times, metric="step time", unit="s", marks=MARKS, log=False)
    assert figure["layout"]["yaxis"]["title"]["text"] == "step time (ms)"
    assert figure["data"][0]["y"][:3] == pytest.approx([2000, 20, 21])
    losses = draw_loss_curves(times, times, metric="loss", unit="1", marks=MARKS)
    assert losses["data"][0]["y"][:3] == [2.0, 0.020, 0.021]
