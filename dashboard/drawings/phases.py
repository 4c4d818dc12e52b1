"""The phases of runs as bars in the order of time: one bar for each environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dashboard.charts.phases import MEASURED, describe_phase, sort_by_time
from dashboard.drawings.axes_figure import (
    Area,
    AxesFigure,
    Axis,
    Item,
    Key,
    Note,
    Panel,
    choose_linear_ticks,
    finish,
    name_axis,
    turn_down,
)
from dashboard.drawings.themes import MOST_PHASES
from experiments.statistics import numbers

BAR = 0.36
"""Half of a bar's height, where a row is 1."""
ROW = 5.6
OTHER_KEY = "other phases"
"""The smallest phases together, where there are more than look different."""
NOTE = (
    "Medians of runs (their number in brackets), without the steady state, which the verdicts are "
    "about; at the end of a bar its length."
)
NUMBER_ROOM = 1.16


@dataclass(frozen=True)
class Phases:
    """The seconds of each phase in one configuration, by environment, the baseline first."""

    title: str
    bodies: Sequence[tuple[str, int, Mapping[str, float]]]
    """An environment, how many runs it has, and its phases."""


def describe_phases(
    configurations: Sequence[Phases], *, hide: Callable[[str], str] = str
) -> AxesFigure | None:
    """Describe a panel for each configuration; None where no run reported its phases."""
    names = sort_by_time(
        {
            name
            for phases in configurations
            for _, _, body in phases.bodies
            for name, seconds in body.items()
            if seconds > 0 and name not in MEASURED
        }
    )
    if not names:
        return None
    configurations, names, merged = _merge_smallest(configurations, names)
    shades = {name: place for place, name in enumerate(names)}
    notes = [NOTE]
    if merged:
        notes.append(f"Other phases: {numbers.listed([describe_phase(n) for n in merged])}.")
    return finish(
        AxesFigure(
            title="Phases of the runs",
            description=f"{numbers.count(len(names) + len(merged[1:]), 'phase')} in "
            f"{numbers.count(len(configurations), 'configuration')}.",
            panels=tuple(_describe_panel(phases, shades) for phases in configurations),
            keys=tuple(Key("phase", shades[name], describe_phase(name)) for name in names),
            notes=tuple(notes),
            columns=1,
        ),
        hide,
    )


def _merge_smallest(
    configurations: Sequence[Phases], names: list[str]
) -> tuple[Sequence[Phases], list[str], list[str]]:
    """Have no more phases than look different: the smallest ones become one, at the bars' ends.

    Return the configurations, the names of their phases, and which of them are one now. What counts
    is the largest share that a phase has of any bar.
    """
    if len(names) <= MOST_PHASES:
        return configurations, names, []
    shares = dict.fromkeys(names, 0.0)
    for phases in configurations:
        for _, _, body in phases.bodies:
            total = sum(max(body.get(name, 0.0), 0.0) for name in names)
            for name in names:
                shares[name] = max(shares[name], body.get(name, 0.0) / (total or 1.0))
    largest = sorted(names, key=lambda name: -shares[name])[: MOST_PHASES - 1]
    kept = [name for name in names if name in largest]
    merged = [name for name in names if name not in largest]

    def merge(body: Mapping[str, float]) -> dict[str, float]:
        rest = sum(max(body.get(name, 0.0), 0.0) for name in merged)
        return {name: body[name] for name in kept if name in body} | {OTHER_KEY: rest}

    narrowed = [
        replace(phases, bodies=[(name, runs, merge(body)) for name, runs, body in phases.bodies])
        for phases in configurations
    ]
    return narrowed, [*kept, OTHER_KEY], merged


def _describe_panel(phases: Phases, shades: Mapping[str, int]) -> Panel:
    totals = [
        sum(seconds for name, seconds in body.items() if name in shades)
        for _, _, body in phases.bodies
    ]
    factor, unit = numbers.si(totals, "s")
    items: list[Item] = []
    for row, ((_, _, body), total) in enumerate(zip(phases.bodies, totals, strict=True)):
        begin = 0.0
        for name, shade in shades.items():
            seconds = body.get(name, 0.0)
            if seconds > 0:
                end = begin + seconds * factor
                text = numbers.quantity(seconds * factor, "", significant=2).strip()
                items.append(Area(begin, end, row - BAR, row + BAR, f"phase {shade}", text))
                begin = end
        text = numbers.quantity(total * factor, "", significant=3).strip()
        items.append(Note(begin, row, text, is_bold=True))
    high = (max(totals) * factor or 1.0) * NUMBER_ROOM
    labels = [f"{environment} ({runs})" for environment, runs, _ in phases.bodies]
    return Panel(
        phases.title,
        Axis(f"Time ({unit})", 0.0, high, choose_linear_ticks(0.0, high, 8)),
        turn_down(name_axis(labels)),
        tuple(items),
        height=ROW * len(labels) + 1.2,
    )
