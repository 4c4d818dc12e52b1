"""Figures of two runs and of two experiments: whose a panel is, and equal axes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from dashboard.drawings.axes_figure import AxesFigure, Key, Panel, Path, make_linear_axis
from dashboard.drawings.axes_json import read_axes_figure, write_axes_figure
from dashboard.drawings.paired_panels import NOTHING, pair_figures
from dashboard.drawings.paired_series import PairedCurves, describe_paired_series
from experiments.statistics.steps import Curve

NAMES = ("bare metal, run 1", "Apptainer, run 2")
MARKS = {NAMES[0]: 0, NAMES[1]: 1}
SIDES = ("Left, before", "Right, after")


def make_curves(*values: list[float], warm_up: int = 0, is_log: bool = False) -> PairedCurves:
    curves = [Curve(name, range(1, len(y) + 1), y) for name, y in zip(NAMES, values, strict=False)]
    return PairedCurves("Step time", "s", curves, dict.fromkeys(NAMES, warm_up), is_log=is_log)


def describe(*series: PairedCurves) -> AxesFigure | None:
    return describe_paired_series(series, names=NAMES, marks=MARKS)


def make_panel(y_title: str, most: float) -> Panel:
    return Panel(
        "",
        make_linear_axis("Step", [0.0, 10.0]),
        make_linear_axis(y_title, [0.0, most]),
        (Path(1, (0.0, 10.0), (0.0, most)),),
    )


def make_figure(*panels: Panel, text: str = "Apptainer") -> AxesFigure:
    return AxesFigure("t", "d", panels, (Key("line", 1, text),), ("thick: medians",))


def test_both_runs_are_lines_of_one_panel_with_their_own_marks() -> None:
    figure = describe(make_curves([0.3, 0.02, math.nan, 0.021], [0.022] * 4))
    assert figure
    (panel,) = figure.panels
    paths = [item for item in panel.items if isinstance(item, Path)]
    assert [path.mark for path in paths] == [0, 1]
    assert paths[0].y[2] is None
    assert [key.text for key in figure.keys] == list(NAMES)
    assert read_axes_figure(write_axes_figure(figure)) == figure


def test_slow_first_steps_are_cut_off_and_counted() -> None:
    figure = describe(make_curves([3.0, 0.02, 0.021], [0.022] * 3, warm_up=1))
    assert figure
    assert figure.panels[0].y.high < 100, "milliseconds of steady steps"
    assert figure.notes == ("Step time: 1 value above the axis, up to 3000 ms.",)


@pytest.mark.parametrize("values", [[], [math.nan], [math.inf, -math.inf]])
def test_what_has_no_number_has_no_panel(values: list[float]) -> None:
    assert describe(make_curves(values)) is None
    figure = describe(make_curves(values), make_curves([1.0]))
    assert figure
    assert len(figure.panels) == 1
    write_axes_figure(figure)


def test_a_log_axis_only_where_all_values_are_above_zero() -> None:
    for lowest, is_log in ((1e-6, True), (0.0, False), (-1.0, False)):
        figure = describe(make_curves([lowest, 2.0], [1.0, 3.0], is_log=True))
        assert figure
        assert figure.panels[0].y.is_log == is_log


def test_panels_of_one_quantity_stand_beside_each_other_on_equal_axes() -> None:
    left = make_figure(make_panel("Step time (ms)", 10), make_panel("Loss", 2))
    right = make_figure(make_panel("Loss", 5), make_panel("Step time (ms)", 30))
    figure = pair_figures((left, right), SIDES, "Inside the runs")
    assert figure
    assert [panel.y.title for panel in figure.panels] == ["Step time (ms)"] * 2 + ["Loss"] * 2
    assert [panel.title for panel in figure.panels] == [*SIDES, *SIDES]
    for first, second in (figure.panels[:2], figure.panels[2:]):
        assert (first.x, first.y) == (second.x, second.y)
    assert figure.panels[0].y.high >= 30
    assert figure.notes == ("thick: medians",)
    assert [key.text for key in figure.keys] == ["Apptainer"]


def test_axes_in_other_units_stay() -> None:
    left = make_figure(make_panel("Step time (ms)", 10))
    right = make_figure(make_panel("Step time (s)", 2))
    figure = pair_figures((left, right), SIDES, "t")
    assert figure
    assert figure.panels[0].y.high > 5 > figure.panels[1].y.high
    assert figure.panels[0].x == figure.panels[1].x


def test_what_one_side_lacks_is_an_empty_panel_that_says_so() -> None:
    only = make_figure(make_panel("Loss", 2))
    for figures, empty in (((only, None), 1), ((None, only), 0)):
        figure = pair_figures(figures, SIDES, "t")
        assert figure
        assert figure.panels[empty].title == f"{SIDES[empty]}: {NOTHING}"
        assert figure.panels[empty].items == ()
        assert figure.panels[1 - empty].items
    assert pair_figures((None, None), SIDES, "t") is None


def test_a_line_that_stands_for_two_environments_says_on_which_side() -> None:
    panel = make_panel("Loss", 2)
    left, right = (make_figure(panel, text=text) for text in ("Apptainer", "Podman"))
    figure = pair_figures((left, right), SIDES, "t")
    assert figure
    assert [key.text for key in figure.keys] == ["Apptainer (left)", "Podman (right)"]


def test_an_axis_of_names_is_not_joined() -> None:
    panel = make_panel("Loss", 2)
    named = replace(panel, y=replace(panel.y, has_names=True))
    figure = pair_figures((make_figure(named), make_figure(named)), SIDES, "t")
    assert figure
    assert figure.panels[0].y == named.y
