"""Figures as they are sent: what they repeat is sent once, and nothing is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dashboard.charts.packing import pack_figure
from dashboard.templatetags.comparisons import figure_script

STEPS = [1, 3, 5, 7, 9, 11, 13, 15]


def make_figure(x: list[Any], runs: list[str]) -> dict[str, Any]:
    return {"data": [{"x": x, "y": list(range(len(x))), "customdata": runs}], "layout": {"a": 1}}


def unpack(trace: dict[str, Any]) -> dict[str, Any]:
    """Unpack a trace as static/js/charts.js does."""
    trace = dict(trace)
    runs, lines = trace.pop("packed_customdata", None), trace.pop("packed_x", None)
    if runs:
        trace["customdata"] = [run for run, count in runs for _ in range(count)]
    if lines:
        places, counts = lines
        trace["x"] = [x for count in counts for x in (*places[:count], None)]
    return trace


LINES = {
    "of equal length": [STEPS] * 9,
    "some of which end early": [STEPS[:3], STEPS, *[STEPS[:5]] * 20],
}


@pytest.mark.parametrize("lines", LINES.values(), ids=LINES)
def test_lines_over_the_same_steps_have_them_once(lines: list[list[int]]) -> None:
    x = [place for line in lines for place in (*line, None)]
    runs = [run for number, line in enumerate(lines) for run in (*[f"r{number}"] * len(line), "")]
    figure = make_figure(x, runs)
    packed = pack_figure(figure)
    assert packed["layout"] == figure["layout"]
    (trace,) = packed["data"]
    assert "x" not in trace
    assert len(json.dumps(trace["packed_x"])) < len(json.dumps(x)) / 2
    assert unpack(trace) == figure["data"][0]


OTHERS = {
    "no gap at the end": [*STEPS * 8],
    "other places": [1, 2, 3, None, 4, 5, 6, None, 7, 8, 9, None],
    "a line without places": [None, 1, 2, 3, None, 1, 2, 3, None],
    "nothing": [],
    "one gap": [None],
}


@pytest.mark.parametrize("x", OTHERS.values(), ids=OTHERS)
def test_what_would_not_be_shorter_is_sent_as_it_is(x: list[Any]) -> None:
    figure = make_figure(x, [f"r{number}" for number in range(len(x))])
    packed = pack_figure(figure)
    assert unpack(packed["data"][0]) == figure["data"][0]
    assert "packed_customdata" not in packed["data"][0]


def test_names_in_a_packed_figure_are_no_markup() -> None:
    script = figure_script(make_figure([1, 2], ["</script><b>"] * 20), "plot")
    assert script.count("</script>") == 1
    assert "<b>" not in script
