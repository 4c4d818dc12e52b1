"""Quantile-quantile plots of the logs of values: a panel for each pair that has runs enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dashboard.charts.quantiles import find_mark
from dashboard.drawings.axes_figure import (
    INK,
    AxesFigure,
    Item,
    Key,
    Panel,
    Path,
    Points,
    finish,
    make_linear_axis,
)
from experiments.statistics import numbers
from experiments.statistics.normality import Normality

NOTE = "Values of a normal distribution lie along the line. Nothing is decided by this."


def describe_quantiles(
    pairs: Sequence[tuple[str, Sequence[Normality]]],
    *,
    marks: Mapping[str, int],
    hide: Callable[[str], str] = str,
) -> AxesFigure | None:
    """Describe the diagnostics of pairs, each with its name; None where no pair has any."""
    shown = [(title, checked) for title, checked in pairs if checked]
    if not shown:
        return None
    marks_by_name = {each.of: find_mark(each, marks) for _, checked in shown for each in checked}
    return finish(
        AxesFigure(
            title="Are the logs of the values normally distributed?",
            description=f"{numbers.count(len(shown), 'comparison')}.",
            panels=tuple(_describe_pair(title, checked, marks) for title, checked in shown),
            keys=tuple(Key("symbol", mark, name) for name, mark in marks_by_name.items()),
            notes=(NOTE,),
            columns=3,
        ),
        hide,
    )


def _describe_pair(title: str, checked: Sequence[Normality], marks: Mapping[str, int]) -> Panel:
    reach = max((abs(x) for each in checked for point in each.points for x in point), default=1.0)
    items: list[Item] = [Path(INK, (-reach, reach), (-reach, reach), width=0.5)]
    for each in checked:
        x, y = (tuple(point[place] for point in each.points) for place in (0, 1))
        items.append(Points(find_mark(each, marks), x, y, is_small=len(x) > 30))
    return Panel(
        title,
        make_linear_axis("Normal quantile", (-reach, reach), most=4),
        make_linear_axis("Log of the value, in SDs", (-reach, reach), most=4),
        tuple(items),
        height=40.0,
    )
