"""Control charts: the values of each recurrence, with the limits by which they were judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dashboard.charts.style import close_log_range
from dashboard.drawings.axes_figure import (
    INK,
    MUTED,
    AxesFigure,
    Axis,
    Item,
    Note,
    Panel,
    Path,
    Points,
    finish,
    take_axis,
)
from experiments.statistics import numbers
from experiments.statistics.control_charts import ChartPoint, ControlChart, Limits

NOTE = (
    "Solid: the mean of the values before; dashed: the limits by which each value was judged. "
    "Rings left them; the first of each stretch has its number."
)
MOST_TICKS = 12
MOST_NUMBERED = 20
"""Stretches of points outside of the limits whose first number stands there: the last ones."""
MANY = 60
"""Points, from which on they are small."""


def describe_control_charts(
    charts: Sequence[ControlChart], *, marks: Mapping[str, int], hide: Callable[[str], str] = str
) -> AxesFigure | None:
    """Describe a panel for each chart that has a value; None where none has."""
    panels = tuple(
        _describe(chart, marks.get(chart.environment, 0))
        for chart in charts
        if chart.last is not None
    )
    if not panels:
        return None
    has_limits = any(point.limits for chart in charts for point in chart.points)
    figure = AxesFigure(
        title=f"Over time: {charts[0].configuration}, {charts[0].metric}",
        description=f"{numbers.count(len(panels), 'control chart')} of "
        f"{numbers.count(max(len(chart.points) for chart in charts), 'recurrence')}.",
        panels=panels,
        notes=(NOTE,) if has_limits else (),
        columns=1,
    )
    return finish(figure, hide)


def _describe(chart: ControlChart, mark: int) -> Panel:
    shown = [point for point in chart.points if point.value is not None]
    ends = [end for point in shown if point.limits for end in _list_ends(point)]
    values = [point.value for point in shown if point.value is not None]
    factor, unit = (1.0, "") if chart.is_ratio else numbers.si(values, chart.unit)
    title = "ratio" if chart.is_ratio else chart.metric
    unit_text = f" ({unit}, log)" if unit and unit != "1" else " (log)"
    all_values = [value * factor for value in (*values, *ends)]
    return Panel(
        chart.title,
        _make_number_axis(len(chart.points)),
        take_axis(title + unit_text, close_log_range(min(all_values), max(all_values))),
        tuple(_list_items(shown, factor, mark)),
        height=38.0,
    )


def _list_items(points: Sequence[ChartPoint], factor: float, mark: int) -> list[Item]:
    x = tuple(float(point.number) for point in points)
    y = tuple((point.value or 0.0) * factor for point in points)
    outside = tuple(place for place, point in enumerate(points) if point.is_outside)
    firsts = [place for place in outside if place - 1 not in outside]
    items: list[Item] = [
        _draw_steps(points, [limits.centre for limits in _limits(points)], factor, dashed=False),
        _draw_steps(points, [limits.low for limits in _limits(points)], factor, dashed=True),
        _draw_steps(points, [limits.high for limits in _limits(points)], factor, dashed=True),
        Path(mark, x, y, width=0.5, is_pale=True),
        Points(mark, x, y, hollow=outside, is_small=len(points) > MANY),
    ]
    return items + [
        Note(x[place], y[place], str(points[place].number), is_bold=True, ground="paper")
        for place in firsts[-MOST_NUMBERED:]
    ]


def _limits(points: Sequence[ChartPoint]) -> list[Limits]:
    return [point.limits for point in points if point.limits]


def _list_ends(point: ChartPoint) -> tuple[float, ...]:
    return (point.limits.low, point.limits.high) if point.limits else ()


def _draw_steps(
    points: Sequence[ChartPoint], levels: Sequence[float], factor: float, *, dashed: bool
) -> Path:
    """Return a line at these levels, each as wide as its point; a gap where none was judged."""
    judged = [point.number for point in points if point.limits]
    x: list[float | None] = []
    y: list[float | None] = []
    for place, (number, level) in enumerate(zip(judged, levels, strict=True)):
        if place and number != judged[place - 1] + 1:
            x.append(None)
            y.append(None)
        x += [number - 0.5, number + 0.5]
        y += [level * factor, level * factor]
    return Path(MUTED if dashed else INK, tuple(x), tuple(y), width=0.6, is_dashed=dashed)


def _make_number_axis(count: int) -> Axis:
    """Return the axis of the numbers of recurrences, with ticks at round ones."""
    rough = count / MOST_TICKS
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500) if step >= rough)
    ticks = tuple((float(number), str(number)) for number in range(step, count + 1, step))
    return Axis("recurrence", 0.4, max(count, 2) + 0.6, ticks)
