"""Figures with axes: what is described is where the numbers are, and all of it is on the paper."""

from __future__ import annotations

import io
import math
import random
import re
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from PIL import Image
from pypdf import PdfReader

from dashboard.charts.phases import COLOURS, MEASURED
from dashboard.drawings.axes_figure import (
    Area,
    AxesFigure,
    Axis,
    Note,
    Panel,
    Path,
    Points,
    name_axis,
)
from dashboard.drawings.axes_items import Box, clip
from dashboard.drawings.axes_json import read_axes_figure, write_axes_figure
from dashboard.drawings.axes_layout import lay_out_axes_figure
from dashboard.drawings.axes_pages import TALLEST, break_rows
from dashboard.drawings.bars import describe_bars
from dashboard.drawings.elements import Drawing, Line, Polygon, Polyline, Text
from dashboard.drawings.equivalence import describe_equivalence
from dashboard.drawings.files import use_typeface, write_file
from dashboard.drawings.phases import Phases, describe_phases
from dashboard.drawings.quantiles import describe_quantiles
from dashboard.drawings.run_series import (
    RunSeries,
    Track,
    describe_node,
    describe_run_series,
)
from dashboard.drawings.runs import Runs, describe_run_order, describe_runs
from dashboard.drawings.scaling import Scaled, describe_scaling
from dashboard.drawings.slopes import describe_slopes
from dashboard.drawings.steps import Series, Steps, describe_steps
from dashboard.drawings.themes import MOST_PHASES, THEMES, compute_contrast
from dashboard.drawings.training import describe_training
from dashboard.drawings.variance import Spread, describe_variance
from experiments.statistics import Sample, compare
from experiments.statistics.normality import check_normality
from experiments.statistics.repetitions import Steps as StepVariance
from experiments.statistics.run_bands import TimedRun, trace_steps
from experiments.statistics.scaling import compute_gains, make_level_from_runs
from experiments.statistics.steps import Curve, Trained, compare_losses, pool_steps
from experiments.statistics.training.loss_curves import CurvePair
from experiments.statistics.values import InterimAnalysis
from experiments.statistics.variance_components import Component
from tests.dashboard.drawings.examples import NAMES, get_typeface

MM = 25.4
MARKS = {name: index for index, name in enumerate(NAMES)}
ODD = "$x^2$ <b>&amp;</b> \\frac{1}{2} \u202eabc\u0000\n"


def make_samples(group: int = 0, *, names: Any = NAMES[:4], blocks: int = 8) -> list[Sample]:
    chance = random.Random(group)
    return [
        Sample(
            run=f"{group}-{index}-{block}",
            block=f"block {block}",
            environment=name,
            value=0.02 * (1 + group) * math.exp(0.01 * index + chance.gauss(0, 0.006)),
            started=1.79e9 + 600 * block + 60 * ((index + block) % 4),
        )
        for index, name in enumerate(names)
        for block in range(blocks)
    ]


def make_runs(groups: int, **options: Any) -> list[Runs]:
    return [
        Runs(f"ResNet-50, {1 << group % 6}x4", "Time per step", "s", make_samples(group, **options))
        for group in range(groups)
    ]


def make_pairs(groups: int) -> list[Any]:
    return [
        (
            runs.title,
            compare(
                list(runs.samples),
                baseline=NAMES[0],
                environments=NAMES[1:4],
                margin=0.02,
                better="lower",
                paired=True,
                unit="s",
            ),
        )
        for runs in make_runs(groups)
    ]


def make_scaled() -> Scaled:
    levels = [
        make_level_from_runs(
            name, gpus, [s.value / gpus for s in make_samples(index, names=[name])]
        )
        for index, name in enumerate(NAMES[:4])
        for gpus in (4, 8, 16)
    ]
    gains = compute_gains(levels, better="lower", batch="total")
    return Scaled("Strong scaling", "Time per step", "s", "lower", "total", levels, gains)


def make_steps() -> Steps:
    chance = random.Random(3)
    tails = [
        pool_steps(name, [[0.02 + abs(chance.gauss(0, 0.001)) for _ in range(90)]])
        for name in NAMES[:3]
    ]
    curves = [
        Curve(name, list(range(1, 41)), [3 / step for step in range(1, 41)], f"{name} {run}")
        for name in NAMES[:3]
        for run in range(3)
    ]
    accuracies = [Curve(name, [60, 120, 180], [0.3, 0.6, 0.7], name) for name in NAMES[:3]]
    series = Series("Loss", "1", curves, curves[::3], is_log=True)
    return Steps("ResNet-50", [tail for tail in tails if tail], [series], accuracies, 0.75)


def make_curve_pairs() -> list[CurvePair]:
    steps = tuple(range(10, 210, 10))
    return [
        CurvePair(
            environment=name,
            baseline=NAMES[0],
            by="block",  # type: ignore[arg-type]
            is_relative=True,
            x=steps,
            difference=tuple(0.01 * math.sin(step / 20) for step in steps),
            band=(0.03,) * len(steps),
        )
        for name in NAMES[1:4]
    ]


def make_spread() -> Spread:
    components = [
        Component(("node",), 4, 0.004, (0.0, 0.009)),
        Component(("block",), 8, 0.0, (0.0, 0.002)),
        Component(("run",), 32, 0.006, (0.004, 0.009)),
    ]
    steps = StepVariance(0.002**2, (0.001**2, 0.003**2), 32)
    ratios = [(name, components[::2]) for name in NAMES[1:3]]
    return Spread("ResNet-50, 1x4", components, steps, ratios)


def make_run_series(steps: int = 300) -> list[RunSeries]:
    chance = random.Random(7)
    times = [0.3 if step < 3 else 0.02 + chance.gauss(0, 0.0004) for step in range(steps)]
    ends = list(range(1, steps + 1))
    return [
        RunSeries("Step time", "s", ends, times, warm_up=20),
        RunSeries("Loss", "1", ends, [3 / step for step in ends]),
        RunSeries("Accuracy", "1", [60, 120], [0.3, math.nan], is_of_steps=False, target=0.7),
    ]


def make_tracks(gpus: int = 4) -> list[Track]:
    use = [
        Track("GPU use", "%", [None, *(90.0 + gpu for _ in range(40))], has_limit=True)
        for gpu in range(gpus)
    ]
    return [*use, Track("GPU power", "W", [350.0] * 40), Track("GPU clock", "Hz", [1.4e9] * 40)]


def make_traced_steps() -> Steps:
    """Return the steps of five runs of each environment, with bands instead of lines."""
    chance = random.Random(5)
    names = NAMES[:4]
    traces = []
    for name in names:
        runs = [
            TimedRun(
                f"{name} {run}",
                [0.3] * 8 + [0.02 + abs(chance.gauss(0, 0.001)) for _ in range(400)],
                warm_up=20 + run,
            )
            for run in range(5)
        ]
        traces.append(trace_steps(name, runs))
    steps = list(range(1, 41))
    rows = [
        Trained(f"{name} {run}", name, None, [(3 + run / 10) / step for step in steps])
        for name in names
        for run in range(5)
    ]
    drawn = compare_losses(rows, environments=names, runs=len(rows), steps=len(steps))
    losses = Series("Loss", "1", drawn.curves, drawn.medians, is_log=True, bands=drawn.bands)
    return Steps("ResNet-50", [], [losses], [], traces=[trace for trace in traces if trace])


def make_runs_on_nodes(groups: int) -> list[Runs]:
    return [
        replace(runs, samples=[replace(s, node=f"node{s.block[-1:]}") for s in runs.samples])
        for runs in make_runs(groups)
    ]


PHASES = {"container start": 1.3, "import": 9.8, "first step": 7.4, "steady state": 60.0}


def make_figures(groups: int = 2) -> dict[str, AxesFigure | None]:
    chance = random.Random(1)
    checked = check_normality("Apptainer", [chance.gauss(0, 1) for _ in range(12)])
    phases = Phases("ResNet-50", [(name, 8, PHASES) for name in NAMES[:4]])
    return {
        "runs": describe_runs(make_runs(groups), marks=MARKS),
        "run order": describe_run_order(make_runs(groups), marks=MARKS),
        "run order by node": describe_run_order(make_runs_on_nodes(groups), marks=MARKS),
        "slopes": describe_slopes(make_runs(groups), marks=MARKS),
        "equivalence": describe_equivalence(make_pairs(groups), margin=0.02, marks=MARKS),
        "bars": describe_bars(make_pairs(groups), marks=MARKS),
        "phases": describe_phases([phases] * groups),
        "scaling": describe_scaling([make_scaled()], marks=MARKS),
        "steps": describe_steps(make_steps(), marks=MARKS),
        "bands of steps": describe_steps(make_traced_steps(), marks=MARKS),
        "training": describe_training([("ResNet-50", make_curve_pairs())] * groups, marks=MARKS),
        "variance": describe_variance([make_spread()] * groups, marks=MARKS),
        "run": describe_run_series("ResNet-50 in Apptainer", make_run_series(), mark=1),
        "node": describe_node("ResNet-50 in Apptainer", make_tracks(), 210.0),
        "quantiles": describe_quantiles([("Apptainer", [checked])] if checked else [], marks=MARKS),
    }


FIGURES = {name: figure for name, figure in make_figures().items() if figure}


def lay_out(figure: AxesFigure, width: int = 180, theme: str = "light") -> list[Drawing]:
    type_ = get_typeface()
    use_typeface(type_)
    return lay_out_axes_figure(figure, width=width, theme=THEMES[theme], type_=type_)


def list_points(panel: Panel) -> list[Points]:
    return [item for item in panel.items if isinstance(item, Points)]


def find_centre(polygon: Polygon) -> tuple[float, float]:
    xs, ys = zip(*polygon.points, strict=True)
    return (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2


def test_all_kinds_have_an_example() -> None:
    assert set(FIGURES) == set(make_figures(1)), "each of them has something to show"


# What is described


def test_each_run_is_a_point_at_its_value_and_the_tick_is_the_median() -> None:
    (runs,) = make_runs(1)
    figure = describe_runs([runs], marks=MARKS)
    assert figure
    (panel,) = figure.panels
    assert panel.x.title == "Time per step (ms, log)"
    for points in list_points(panel):
        mine = [s.value for s in runs.samples if s.environment == NAMES[points.mark]]
        assert points.x == pytest.approx([1000 * value for value in mine])
        assert all(abs(y - points.mark) < 0.4 for y in points.y)
    ticks = [item.x[0] for item in panel.items if isinstance(item, Path)]
    assert ticks == pytest.approx(
        [
            1000 * median(s.value for s in runs.samples if s.environment == name)
            for name in NAMES[:4]
        ]
    )
    assert all(panel.x.low < value < panel.x.high for p in list_points(panel) for value in p.x)


def test_slopes_join_the_runs_of_a_block() -> None:
    (runs,) = make_runs(1)
    figure = describe_slopes([runs], marks=MARKS)
    assert figure
    values = {(s.environment, s.block): 1000 * s.value for s in runs.samples}
    for panel, name in zip(figure.panels, NAMES[1:4], strict=True):
        (path,) = (item for item in panel.items if isinstance(item, Path))
        assert path.y[:2] == pytest.approx((values[NAMES[0], "block 0"], values[name, "block 0"]))
        assert path.y[2] is None


def test_the_curve_crosses_the_level_at_the_smallest_margin() -> None:
    groups = make_pairs(1)
    figure = describe_equivalence(groups, margin=0.02, marks=MARKS)
    assert figure
    for panel, pair in zip(figure.panels, groups[0][1], strict=True):
        (points,) = list_points(panel)
        assert points.x == (100 * pair.smallest_margin,)
        assert points.y == (0.05,)
        (curve,) = (item for item in panel.items if isinstance(item, Path))
        above = [x for x, p in zip(curve.x, curve.y, strict=True) if p > 0.05]
        below = [x for x, p in zip(curve.x, curve.y, strict=True) if p < 0.05]
        assert max(above) <= points.x[0] * 1.0001
        assert points.x[0] <= min(below) * 1.0001


def test_scaling_has_the_levels_and_the_efficiencies_with_their_intervals() -> None:
    scaled = make_scaled()
    figure = describe_scaling([scaled], marks=MARKS)
    assert figure
    values, efficiency = figure.panels
    for points in list_points(values):
        mine = [lv for lv in scaled.levels if lv.environment == NAMES[points.mark]]
        assert points.y == pytest.approx([1000 * level.mean for level in mine])
    shown = {y for points in list_points(efficiency) for y in points.y}
    known = {100 * gain.efficiency for gain in scaled.gains if gain.efficiency is not None}
    assert sorted(shown) == pytest.approx(sorted(known))
    assert [label for _, label in values.x.ticks] == ["4", "8", "16"]


def test_phases_follow_each_other_without_the_steady_state() -> None:
    figure = FIGURES["phases"]
    areas = [item for item in figure.panels[0].items if type(item).__name__ == "Area"]
    assert [area.left for area in areas[:3]] == pytest.approx([0, 1.3, 11.1])
    assert [area.right for area in areas[:3]] == pytest.approx([1.3, 11.1, 18.5])
    assert [key.text for key in figure.keys] == ["container start", "import", "first step"]


TWELVE = [name for name in COLOURS if name not in MEASURED]
"""All phases that the page knows beside what is measured."""


def describe_bodies(*bodies: dict[str, float]) -> AxesFigure:
    phases = [(NAMES[place], 8, body) for place, body in enumerate(bodies)]
    figure = describe_phases([Phases("ResNet-50", phases)])
    assert figure
    return figure


@pytest.mark.parametrize("theme", THEMES)
def test_no_two_phases_look_the_same_and_neighbours_differ_in_lightness(theme: str) -> None:
    figure = describe_bodies({name: 1.0 + place for place, name in enumerate(TWELVE)})
    assert len({key.index for key in figure.keys}) == len(figure.keys) == MOST_PHASES
    (page,) = lay_out(figure, theme=theme)
    boxes = [element for element in page.elements if getattr(element, "name", "") == "phase"]
    assert len(boxes) == MOST_PHASES
    hatches = [element for element in page.elements if getattr(element, "name", "") == "hatch"]
    looks = []
    for box in boxes:
        assert isinstance(box, Polygon)
        assert compute_contrast(box.edge, THEMES[theme].ground) > 3, "its outline is seen"
        (left, top), _, (right, bottom), _ = box.points
        lines = [
            line
            for line in hatches
            if isinstance(line, Line)
            and all(
                left - 1e-6 <= x <= right + 1e-6 and top - 1e-6 <= y <= bottom + 1e-6
                for x, y in (line.start, line.end)
            )
        ]
        assert len({line.colour for line in lines}) <= 1
        assert all(compute_contrast(line.colour, box.fill) > 3 for line in lines)
        looks.append((box.fill, bool(lines)))
    assert len(set(looks)) == MOST_PHASES
    for (fill, _), (following, _) in pairwise(looks):
        assert compute_contrast(fill, following) > 2.5


def test_of_many_phases_the_smallest_are_one_and_named_below() -> None:
    sizes = {name: 10.0 + place for place, name in enumerate(TWELVE)}
    sizes |= {"snapshot": 0.1, "report": 0.2, "end": 0.3, "record": 0.4}
    figure = describe_bodies(sizes, {**sizes, "report": 0.4})
    names = [key.text for key in figure.keys]
    assert names[-1] == "other phases"
    assert not {"snapshot", "report", "end", "record"} & set(names)
    assert "Other phases: snapshot, report, end and record." in figure.notes
    areas = [item for item in figure.panels[0].items if isinstance(item, Area)]
    rests = [area for area in areas if area.colour == f"phase {MOST_PHASES - 1}"]
    assert [area.right - area.left for area in rests] == pytest.approx([1.0, 1.2])
    assert [area.right for area in rests] == pytest.approx(
        [sum(sizes.values()), sum(sizes.values()) + 0.2]
    )


def test_a_small_phase_that_is_large_once_has_a_place_of_its_own() -> None:
    sizes = {name: 10.0 + place for place, name in enumerate(TWELVE)} | {"snapshot": 0.1}
    figure = describe_bodies(sizes, {"import": 1.0, "snapshot": 5.0})
    assert "snapshot" in [key.text for key in figure.keys]


def test_few_phases_are_plain() -> None:
    (page,) = lay_out(describe_bodies(dict.fromkeys(TWELVE[:5], 1.0)))
    assert not [element for element in page.elements if getattr(element, "name", "") == "hatch"]


def test_bars_are_the_ratios_from_zero() -> None:
    groups = make_pairs(1)
    figure = describe_bars(groups, marks=MARKS)
    assert figure
    areas = [item for item in figure.panels[0].items if type(item).__name__ == "Area"]
    assert [area.right for area in areas] == [1.0, *(pair.ratio for pair in groups[0][1])]
    assert {area.left for area in areas} == {0.0}
    assert figure.panels[0].x.low == 0


def judge_first_again(groups: list[Any]) -> list[Any]:
    """Return the pairs with the first one as it is after an extension: at another level."""
    title, (first, *others) = groups[0]
    analysis = InterimAnalysis(
        number=2, of=2, alpha=0.0294, ci_difference=(0.9, 1.1), ci_equivalence=(0.95, 1.05)
    )
    return [(title, [replace(first, interim_analysis=analysis), *others]), *groups[1:]]


def test_each_curve_is_shaded_up_to_the_level_of_its_own_verdict() -> None:
    figure = describe_equivalence(judge_first_again(make_pairs(1)), margin=0.02, marks=MARKS)
    assert figure
    tops = [
        next(item.top for item in panel.items if isinstance(item, Area)) for panel in figure.panels
    ]
    assert tops == [0.0294, 0.05, 0.05]
    assert "0.0294" in [label for _, label in figure.panels[0].y.ticks]
    assert "0.0294" not in [label for _, label in figure.panels[1].y.ticks]
    assert "p below 0.05 or 0.0294" in figure.notes[0]


def test_bars_name_the_level_of_each_interval_where_there_are_several() -> None:
    figure = describe_bars(judge_first_again(make_pairs(1)), marks=MARKS)
    assert figure
    assert [label for _, label in figure.panels[0].y.ticks] == [
        f"{NAMES[0]}, 95 %",
        f"{NAMES[1]}, 97.06 %",
        f"{NAMES[2]}, 95 %",
        f"{NAMES[3]}, 95 %",
    ]
    alone = describe_bars(make_pairs(1), marks=MARKS)
    assert alone
    assert [label for _, label in alone.panels[0].y.ticks] == list(NAMES[:4])


def test_the_tail_of_step_times_ends_at_the_longest_step() -> None:
    steps = make_steps()
    figure = describe_steps(steps, marks=MARKS)
    assert figure
    paths = [item for item in figure.panels[0].items if isinstance(item, Path)]
    for path, tail in zip(paths, steps.tails, strict=True):
        assert path.x[-1] == pytest.approx(1000 * max(tail.values))
        assert path.y[-1] == pytest.approx(100 / tail.steps)
        assert path.y[0] == pytest.approx(100)


def test_loss_curves_are_differences_in_per_cent_within_their_band() -> None:
    (pair, *_) = make_curve_pairs()
    figure = describe_training([("", [pair])], marks=MARKS)
    assert figure
    (panel,) = figure.panels
    upper, lower, mean = (item for item in panel.items if isinstance(item, Path))
    assert mean.x == pair.x
    assert mean.y == pytest.approx([100 * math.expm1(value) for value in pair.difference])
    assert upper.y[0] == pytest.approx(100 * math.expm1(0.03))
    assert lower.y[0] == pytest.approx(100 * math.expm1(-0.03))
    assert mean.mark == MARKS[pair.environment]


def test_an_interval_of_a_component_that_reaches_zero_ends_in_an_arrow() -> None:
    figure = describe_variance([make_spread()], marks=MARKS)
    assert figure
    (panel,) = figure.panels
    names = [text for _, text in panel.y.ticks]
    assert names[:3] == ["nodes", "runs", "steps within runs"], "what is 0 has no place on a log"
    sds = [points.x[0] for points in list_points(panel)]
    assert sds[:3] == pytest.approx([0.4, 0.6, 0.2])
    arrows = [item.y for item in panel.items if isinstance(item, Note)]
    assert arrows == [0, 3, 5], "nodes, and nodes in each ratio"
    assert all(panel.x.low <= x for item in panel.items if isinstance(item, Path) for x in item.x)


def test_slow_steps_of_the_warm_up_are_cut_off_and_counted() -> None:
    figure = describe_run_series("a run", make_run_series()[:1], mark=2)
    assert figure
    (panel,) = figure.panels
    assert panel.y.high < 40, "in ms: the first steps took 300"
    assert "Step time: 3 steps above the axis, up to 300 ms." in figure.notes
    (shaded,) = (item for item in panel.items if isinstance(item, Area))
    assert (shaded.left, shaded.right) == (0.5, 20.5)
    levels = [item for item in panel.items if isinstance(item, Path) and item.mark == 2]
    assert levels[0].x[0] == 20.5
    assert all(y is None or 19 < y < 21 for y in levels[0].y)


def test_a_run_of_very_many_steps_has_few_points() -> None:
    figure = describe_run_series("a run", make_run_series(50_000)[:2], mark=0)
    assert figure
    assert len(write_axes_figure(figure)) < 200_000


def test_each_gpu_of_a_node_is_a_line_and_a_missing_sample_a_gap() -> None:
    figure = describe_node("a run", make_tracks(8), 210.0)
    assert figure
    use, power, clock = figure.panels
    assert len(use.items) == 8
    assert (use.items[0].y[0], use.items[7].y[1]) == (None, 97.0)  # type: ignore[union-attr,index]
    assert use.y.high >= 100
    assert power.y.title == "GPU power (W)"
    assert clock.y.title == "GPU clock (GHz)"
    assert describe_node("a run", [Track("GPU use", "%", [None])], 1.0) is None


def test_what_makes_no_sense_is_no_figure() -> None:
    nothing = [Runs("", "Time", "s", [])]
    assert describe_runs(nothing, marks=MARKS) is None
    assert describe_run_order(nothing, marks=MARKS) is None
    assert describe_slopes(nothing, marks=MARKS) is None
    assert describe_equivalence([("", [])], margin=0.02, marks=MARKS) is None
    assert describe_bars([("", [])], marks=MARKS) is None
    assert describe_scaling([], marks=MARKS) is None
    assert describe_phases([Phases("", [("bare metal", 1, {})])]) is None
    assert describe_steps(Steps("", [], [], []), marks=MARKS) is None
    assert describe_quantiles([("", [])], marks=MARKS) is None
    (runs,) = make_runs(1, names=NAMES[:1], blocks=1)
    assert describe_slopes([runs], marks=MARKS) is None, "one run is no block of two"
    assert describe_runs([runs], marks=MARKS), "but a run"


def test_values_that_no_log_axis_holds_are_counted_in_words() -> None:
    odd = [math.nan, math.inf, 0.0, -1.0]
    samples = make_samples()
    samples += [Sample(f"odd {v}", "block 0", NAMES[0], v, started=1.79e9) for v in odd]
    for describe in (describe_runs, describe_run_order):
        figure = describe([Runs("", "Time", "s", samples)], marks=MARKS)
        assert figure
        assert "4 runs without a positive value not drawn." in figure.notes
        assert sum(len(points.x) for points in list_points(figure.panels[0])) == 32


def test_a_loss_that_is_not_a_number_is_a_gap_and_said() -> None:
    curve = Curve(NAMES[0], [1, 2, 3], [3.0, math.nan, 1.0], "run")
    figure = describe_steps(Steps("", [], [Series("Loss", "1", [curve], [])], []), marks=MARKS)
    assert figure
    (path,) = (item for item in figure.panels[0].items if isinstance(item, Path))
    assert path.y == (3.0, None, 1.0)
    assert "1 value not a number: gaps in the lines." in figure.notes


def test_of_very_many_runs_the_extremes_are_drawn() -> None:
    samples = make_samples(blocks=2000)
    figure = describe_runs([Runs("", "Time", "s", samples)], marks=MARKS)
    assert figure
    drawn = [x for points in list_points(figure.panels[0]) for x in points.x]
    assert len(drawn) < 520
    values = [1000 * sample.value for sample in samples]
    assert (min(drawn), max(drawn)) == pytest.approx((min(values), max(values)))
    assert "about 500 are drawn" in " ".join(figure.notes)


@pytest.mark.parametrize("name", FIGURES)
def test_the_description_travels_unchanged(name: str) -> None:
    assert read_axes_figure(write_axes_figure(FIGURES[name])) == FIGURES[name]


def test_hidden_names_are_hidden_everywhere() -> None:
    (runs,) = make_runs(1, names=["bare metal", "udocker"])
    secret = replace(runs, title="job of udocker", metric="udocker time")
    for describe in (describe_runs, describe_run_order, describe_slopes):
        figure = describe(
            [secret], marks=MARKS, hide=lambda text: text.replace("udocker", "hidden")
        )
        assert figure
        text = write_axes_figure(figure)
        assert "hidden" in text
        assert "udocker" not in text


# On paper


@pytest.mark.parametrize("width", [88, 180])
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", FIGURES)
def test_everything_stands_on_the_paper_in_type_of_seven_points(
    name: str, theme: str, width: int
) -> None:
    type_ = get_typeface()
    for page in lay_out(FIGURES[name], width, theme):
        assert page.width == width
        for element in page.elements:
            match element:
                case Text():
                    assert element.size >= 7
                    wide = type_.measure(element.text, element.face, element.size)
                    share = {"start": 0.0, "middle": 0.5, "end": 1.0}[element.anchor]
                    left = element.place[0] - share * wide
                    assert left >= -0.01, element
                    assert left + wide <= width + 0.01, element
                    assert 0 < element.place[1] < page.height, element
                case Line():
                    points = (element.start, element.end)
                case Polygon() | Polyline():
                    points = element.points
            if not isinstance(element, Text):
                assert all(-0.01 <= x <= width + 0.01 for x, _ in points), element
                assert all(-0.01 <= y <= page.height + 0.01 for _, y in points), element


@pytest.mark.parametrize("width", [88, 180])
@pytest.mark.parametrize("name", FIGURES)
def test_no_text_lies_on_another(name: str, width: int) -> None:
    type_ = get_typeface()
    for page in lay_out(FIGURES[name], width):
        boxes = []
        for text in (element for element in page.elements if isinstance(element, Text)):
            wide = type_.measure(text.text, text.face, text.size)
            left = text.place[0] - {"start": 0.0, "middle": 0.5, "end": 1.0}[text.anchor] * wide
            # From below the base line to the height of capitals.
            boxes.append((left, text.place[1] - 1.8, left + wide, text.place[1] + 0.4, text.text))
        for place, (left, top, right, bottom, label) in enumerate(boxes):
            for other in boxes[place + 1 :]:
                apart = (
                    right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
                )
                assert apart, (label, other[4])


def test_a_point_is_where_its_axis_has_its_value() -> None:
    figure = FIGURES["runs"]
    (page,) = lay_out(figure)
    symbols = [e for e in page.elements if isinstance(e, Polygon) and e.name == "point"]
    wanted = [
        (panel, x) for panel in figure.panels for points in list_points(panel) for x in points.x
    ]
    assert len(symbols) == len(wanted)
    axes = [e for e in page.elements if isinstance(e, Line) and e.name == "axis"]
    for symbol, (panel, value) in zip(symbols, wanted, strict=True):
        axis = axes[figure.panels.index(panel)]
        share = math.log(value / panel.x.low) / math.log(panel.x.high / panel.x.low)
        x = axis.start[0] + share * (axis.end[0] - axis.start[0])
        assert find_centre(symbol)[0] == pytest.approx(x, abs=0.01)


@pytest.mark.parametrize("groups", [1, 18, 60])
@pytest.mark.parametrize("width", [88, 180])
def test_pages_are_known_before_and_not_taller_than_a_journals(groups: int, width: int) -> None:
    figure = describe_runs(make_runs(groups), marks=MARKS)
    assert figure
    pages = lay_out(figure, width)
    assert len(pages) == len(break_rows(figure, width))
    assert all(page.height <= TALLEST for page in pages)
    assert (
        sum(
            isinstance(element, Polygon) and element.name == "point"
            for page in pages
            for element in page.elements
        )
        == 32 * groups
    )
    if groups > 1:
        assert f"page 1 of {len(pages)}" in pages[0].title


@pytest.mark.parametrize("width", [88, 180])
def test_very_long_names_stay_on_the_paper(width: int) -> None:
    names = ["a very long name of an environment " * 4, "Wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww", ODD]
    marks = {name: index for index, name in enumerate(names)}
    samples = make_samples(names=names)
    long = [Runs("m" * 300, "Quantity " * 20, "s", samples)]
    type_ = get_typeface()
    for describe in (describe_runs, describe_run_order, describe_slopes):
        figure = describe(long, marks=marks)
        assert figure
        for page in lay_out(figure, width):
            for text in (element for element in page.elements if isinstance(element, Text)):
                wide = type_.measure(text.text, text.face, text.size)
                left = text.place[0] - {"start": 0, "middle": 0.5, "end": 1}[text.anchor] * wide
                assert left >= -0.01, text
                assert left + wide <= width + 0.01, text


@pytest.mark.filterwarnings("ignore:Glyph")
def test_markup_in_names_is_letters() -> None:
    figure = describe_runs([Runs(ODD, "Time", "s", make_samples(names=[ODD]))], marks={ODD: 0})
    assert figure
    (page,) = lay_out(figure)
    ET.fromstring(write_file([page], "svg"))
    assert "$x^2$" in PdfReader(io.BytesIO(write_file([page], "pdf"))).pages[0].extract_text()


def test_lines_end_at_the_axes() -> None:
    axis = Axis("", 0.0, 10.0, ())
    box = Box(Panel("", axis, axis, ()), 0.0, 0.0, 10.0, 10.0)
    assert list(clip([(-5, 5), (5, 5), (5, 20), (8, 20), (8, 5)], box)) == [
        [(0.0, 5.0), (5, 5), (5.0, 10.0)],
        [(8.0, 10.0), (8, 5)],
    ]
    assert list(clip([(-5, -5), (-1, 20)], box)) == []
    assert list(clip([(3, 3)], box)) == []


def test_the_first_name_of_an_axis_is_at_zero() -> None:
    assert name_axis(["a", "b"]).ticks == ((0.0, "a"), (1.0, "b"))


# As files


@pytest.mark.parametrize("theme", THEMES)
def test_svg_and_png_have_each_point_where_the_drawing_has_it(theme: str) -> None:
    (page,) = lay_out(FIGURES["run order"], 180, theme)
    svg = write_file([page], "svg").decode()
    image = Image.open(io.BytesIO(write_file([page], "png"))).convert("RGB")
    starts = [
        (float(x) * MM / 72, float(y) * MM / 72)
        for x, y in re.findall(r'd="M ([\d.]+) ([\d.]+)', svg)
    ]
    symbols = [e for e in page.elements if isinstance(e, Polygon) and e.name == "point"]
    shown = 0
    for place, symbol in enumerate(symbols):
        first = symbol.points[0]
        assert any(start == pytest.approx(first, abs=0.003) for start in starts)
        x, y = find_centre(symbol)
        others = (find_centre(other) for other in symbols[place + 1 :])
        if all(math.dist((x, y), other) > 2 for other in others):
            red, green, blue = image.getpixel((int(x / MM * 300), int(y / MM * 300)))
            assert f"#{red:02x}{green:02x}{blue:02x}" == symbol.fill
            shown += 1
    assert shown > len(symbols) / 2


@pytest.mark.parametrize("name", FIGURES)
def test_the_fonts_of_the_pdf_are_embedded_and_the_same_figure_is_the_same_file(name: str) -> None:
    pages = lay_out(FIGURES[name], 88)
    file = write_file(pages, "pdf")
    assert file == write_file(pages, "pdf")
    reader = PdfReader(io.BytesIO(file))
    assert len(reader.pages) == len(pages)
    fonts = [f.get_object() for f in reader.pages[0]["/Resources"]["/Font"].values()]
    assert fonts
    for font in fonts:
        inner = font["/DescendantFonts"][0].get_object() if "/DescendantFonts" in font else font
        assert "/FontFile2" in inner["/FontDescriptor"].get_object()
        assert "Arimo" in font["/BaseFont"]
    assert not reader.pages[0].images, "vectors only"
