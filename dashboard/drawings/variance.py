"""Components of variance: what nodes, blocks, runs and steps each add to the spread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dashboard.charts.style import close_log_range
from dashboard.drawings.axes_figure import (
    INK,
    AxesFigure,
    Item,
    Note,
    Panel,
    Path,
    Points,
    finish,
    name_axis,
    take_axis,
    turn_down,
)
from experiments.statistics import numbers
from experiments.statistics.repetitions import Steps
from experiments.statistics.variance_components import Component

ROW = 5.4
"""Millimetres of a source."""
SMALLEST = 0.5
"""The axis begins at this part of the smallest standard deviation, or further left."""
NOTE = "Standard deviations of logarithms with 95 % intervals; an arrow: the interval reaches 0."


@dataclass(frozen=True)
class Spread:
    """The components of one configuration, of runs and of each environment's ratio."""

    title: str
    runs: Sequence[Component]
    steps: Steps | None
    ratios: Sequence[tuple[str, Sequence[Component]]]


@dataclass(frozen=True)
class _Row:
    name: str
    mark: int
    sd: float
    interval: tuple[float, float] | None


def describe_variance(
    spreads: Sequence[Spread], *, marks: Mapping[str, int], hide: Callable[[str], str] = str
) -> AxesFigure | None:
    """Describe a panel for each configuration; None where nothing can be seen in any."""
    drawn = [(spread, rows) for spread in spreads if (rows := _list_rows(spread, marks))]
    if not drawn:
        return None
    return finish(
        AxesFigure(
            title="What adds to the spread",
            description=f"{numbers.count(len(drawn), 'configuration')}.",
            panels=tuple(_describe_spread(spread.title, rows) for spread, rows in drawn),
            notes=(NOTE,),
            columns=1,
        ),
        hide,
    )


def _list_rows(spread: Spread, marks: Mapping[str, int]) -> list[_Row]:
    """Return what has a standard deviation above 0, in per cent, with its interval."""
    rows = [
        _make_row(component.name, INK, component.sd, component.sd_ci95) for component in spread.runs
    ]
    if spread.steps:
        rows.append(_make_row("steps within runs", INK, spread.steps.sd, spread.steps.sd_ci95))
    rows += [
        _make_row(
            f"ratio of {name}: {component.name}", marks[name], component.sd, component.sd_ci95
        )
        for name, components in spread.ratios
        for component in components
    ]
    return [row for row in rows if row is not None]


def _make_row(
    name: str, mark: int, sd: float | None, interval: tuple[float, float] | None
) -> _Row | None:
    if not sd or sd <= 0:
        return None
    ends = (100 * interval[0], 100 * interval[1]) if interval else None
    return _Row(name, mark, 100 * sd, ends)


def _describe_spread(title: str, rows: Sequence[_Row]) -> Panel:
    values = [row.sd for row in rows]
    ends = [end for row in rows if row.interval for end in row.interval if end > 0]
    low = min([*ends, SMALLEST * min(values)])
    axis = take_axis("Standard deviation (%, log)", close_log_range(low, max([*ends, *values])))
    items: list[Item] = []
    for place, row in enumerate(rows):
        if row.interval:
            left, right = row.interval
            start = max(left, axis.low)
            items.append(Path(row.mark, (start, right), (place, place)))
            if left <= axis.low:
                items.append(
                    Note(axis.low, place, "\N{LEFTWARDS ARROW}", is_bold=True, ground="paper")
                )
        items.append(Points(row.mark, (row.sd,), (float(place),)))
    return Panel(
        title,
        axis,
        turn_down(name_axis([row.name for row in rows])),
        tuple(items),
        height=ROW * len(rows) + 1.6,
    )
