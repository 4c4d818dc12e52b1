"""Runs of an environment are drawn together, and lanes say on which node each ran."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dashboard.drawings.axes_figure import (
    Area,
    AxesFigure,
    Axis,
    Band,
    Panel,
    Path,
    Points,
)
from dashboard.drawings.axes_items import Box, draw_item
from dashboard.drawings.elements import Polygon, Polyline
from dashboard.drawings.run_series import Track, describe_node
from dashboard.drawings.runs import LANES, MOST_LANES, Runs, describe_run_order
from dashboard.drawings.steps import BANDS, SINGLE, STRETCHES, Series, Steps, describe_steps
from dashboard.drawings.themes import THEMES
from experiments.statistics import Sample
from experiments.statistics.run_bands import (
    MOST_BINS,
    RunBand,
    StepTrace,
    TimedRun,
    trace_steps,
)
from experiments.statistics.steps import Curve, Trained, compare_losses, pool_steps
from tests.dashboard.drawings.examples import NAMES, get_typeface

MARKS = {name: index for index, name in enumerate(NAMES)}


def take(panel: Panel, kind: type) -> list[Path | Band | Area | Points]:
    return [item for item in panel.items if isinstance(item, kind)]


def make_trace(name: str, level: float = 0.02, warm_up: int = 10) -> StepTrace:
    runs = [
        TimedRun(f"{name} {run}", [0.3] * 5 + [level + run / 1000] * 95, None, warm_up + (run == 4))
        for run in range(5)
    ]
    trace = trace_steps(name, runs)
    assert trace
    return trace


def describe(steps: Steps) -> AxesFigure:
    figure = describe_steps(steps, marks=MARKS)
    assert figure
    return figure


def test_step_times_have_a_panel_for_each_environment_on_one_scale() -> None:
    traces = [make_trace(NAMES[0]), make_trace(NAMES[1], 0.03, 0)]
    figure = describe(Steps("", [], [], [], traces=traces))
    first, second = figure.panels
    assert (first.title, second.title) == (f"{NAMES[0]}, 5 runs", f"{NAMES[1]}, 5 runs")
    assert (first.x, first.y) == (second.x, second.y)
    ((band,), (path,)) = take(first, Band), take(first, Path)[:1]
    assert path.y[5] == pytest.approx(22.0), "milliseconds"
    assert (band.low[5], band.high[5]) == pytest.approx((20.4, 23.6))
    assert band.x == path.x == tuple(3.0 + 5 * place for place in range(20))
    assert [band.mark, *(item.mark for item in take(second, Band))] == [0, 1]


def test_the_warm_up_is_shaded_with_a_tick_for_the_end_in_each_run() -> None:
    figure = describe(Steps("", [], [], [], traces=[make_trace(NAMES[0])]))
    (panel,) = figure.panels
    ((area,), ticks) = take(panel, Area), take(panel, Path)[-1]
    assert (area.left, area.right) == (0.5, 10.5)
    assert ticks.x[::3] == (10.5,) * 4 + (11.5,)
    assert panel.y.high < 40, "in ms: the first steps took 300"
    assert f"{NAMES[0]}: 1 bin reaches above the axis, up to 300 ms." in figure.notes


def test_panels_of_one_scale_stand_beside_each_other_before_the_tail() -> None:
    traces = [make_trace(NAMES[0]), make_trace(NAMES[1])]
    tail = pool_steps(NAMES[0], [[0.02, 0.03]])
    assert tail
    figure = describe(Steps("", [tail], [], [], traces=traces))
    assert [panel.title for panel in figure.panels] == [f"{name}, 5 runs" for name in NAMES[:2]] + [
        ""
    ]
    assert figure.columns == 2


def test_many_steps_are_stretches_of_band_and_line_and_it_is_said() -> None:
    steps = range(1, 201)
    runs = [
        Trained(f"run {run}", NAMES[0], None, [10.0 + run + step % 2 for step in steps])
        for run in range(3)
    ]
    read = compare_losses(runs, environments=NAMES[:1], runs=3, steps=200)
    series = Series("Loss", "1", read.curves, read.medians, bands=read.bands)
    figure = describe(Steps("", [], [series], []))
    (panel,) = figure.panels
    ((band,), (line,)) = take(panel, Band), take(panel, Path)
    assert len(band.x) == len(line.x) == MOST_BINS
    assert line.y[:2] == (11.5, 12.0), "the second run: of 12 11 12 11, and of 12 11 12"
    assert STRETCHES in figure.notes
    assert len(read.medians[0].x) == 200, "the interactive chart has all"


def test_runs_in_a_band_are_no_lines_and_others_are() -> None:
    curves = [Curve(NAMES[0], [1, 2], [3.0 + run, 1.0], f"run {run}") for run in range(4)]
    band = RunBand(NAMES[0], ("run 0", "run 1", "run 2"), [1, 2], [3.2, 1.0], [4.0, 1.0], [4.8, 1])
    series = Series("Loss", "1", curves, [Curve(NAMES[0], [1, 2], [4.0, 1.0])], bands=[band])
    figure = describe(Steps("", [], [series], []))
    (panel,) = figure.panels
    ((drawn,), (single, median)) = take(panel, Band), take(panel, Path)
    assert (drawn.low, drawn.high) == ((3.2, 1.0), (4.8, 1))
    assert single.y == (6.0, 1.0)
    assert single.is_pale
    assert median.y == (4.0, 1.0)
    assert {BANDS, SINGLE} <= set(figure.notes)
    alone = describe(Steps("", [], [replace(series, curves=curves[:3])], []))
    assert SINGLE not in alone.notes


def test_a_band_is_drawn_up_to_the_edges_of_its_box_and_breaks_at_a_gap() -> None:
    axis = Axis("", 0.0, 10.0, ())
    box = Box(Panel("", axis, axis, ()), 0.0, 0.0, 10.0, 10.0)
    band = Band(1, (1, 2, 3, 4, 5, 6), (1, 2, None, 4, 4, -5), (3, 20, None, 6, 6, 6))
    drawn = list(draw_item(band, box, THEMES["light"], get_typeface()))
    shapes = [shape for shape in drawn if isinstance(shape, Polygon)]
    assert all(0 < shape.opacity < 1 for shape in shapes)
    assert [shape.points for shape in shapes] == [
        ((1, 7), (2, 0), (2, 8), (1, 9)),
        ((4, 4), (5, 4), (6, 4), (6, 10), (5, 6), (4, 6)),
    ]
    edges = [line.points for line in drawn if isinstance(line, Polyline)]
    assert len(edges) == 4
    assert edges[0] == ((1, 7), (pytest.approx(1 + 7 / 17), 0)), "none along the edge of the box"
    assert edges[1:3] == [((1, 9), (2, 8)), ((4, 4), (5, 4), (6, 4))]


def make_samples(nodes: int) -> list[Sample]:
    return [
        Sample(
            run=f"{name} {block}",
            block=f"{block}",
            environment=name,
            value=0.02 + block / 1e4,
            node=f"node{block % nodes:02}",
            started=1.79e9 + 600 * block,
        )
        for name in NAMES[:2]
        for block in range(40)
    ]


def describe_order(samples: list[Sample]) -> AxesFigure:
    figure = describe_run_order([Runs("ResNet-50", "Time", "s", samples)], marks=MARKS)
    assert figure
    return figure


def test_runs_of_several_nodes_have_lanes_below_at_the_same_places() -> None:
    figure = describe_order(make_samples(3))
    values, lanes = figure.panels
    assert [text for _, text in lanes.y.ticks] == ["node00", "node01", "node02"]
    assert (values.x.low, values.x.high) == (lanes.x.low, lanes.x.high)
    assert (values.x.title, figure.columns) == ("", 1)
    assert LANES in figure.notes
    for above, below in zip(take(values, Points), take(lanes, Points), strict=True):
        assert below.mark == above.mark
        assert below.x == above.x
        assert below.y == tuple(float(block % 3) for block in range(40))


def test_one_node_has_no_lane_and_a_job_of_two_is_in_both() -> None:
    figure = describe_order(make_samples(1))
    assert len(figure.panels) == 1
    assert LANES not in figure.notes
    (first, *others) = make_samples(1)
    both = describe_order([replace(first, nodes=("a", "b")), *others])
    _, lanes = both.panels
    assert [text for _, text in lanes.y.ticks] == ["a", "b", "node00"]
    assert take(lanes, Points)[0].y[:2] == (0.0, 1.0)


def test_of_very_many_nodes_the_rest_share_a_lane() -> None:
    figure = describe_order(make_samples(40))
    names = [text for _, text in figure.panels[1].y.ticks]
    assert len(names) == MOST_LANES
    assert names[-1] == "25 other nodes"


def test_the_caption_says_that_the_other_nodes_were_not_sampled() -> None:
    tracks = [Track("CPU use", "%", [50.0, 60.0])]
    several = describe_node("a run", tracks, 10.0, is_first_of=4)
    alone = describe_node("a run", tracks, 10.0)
    assert several
    assert alone
    sentence = "Of the first of 4 nodes of the run: the others were not sampled."
    assert several.notes[0] == sentence
    assert sentence not in alone.notes
