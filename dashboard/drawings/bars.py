"""Ratios to the baseline as bars from zero, a panel for each configuration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from dashboard.charts.bars import WIDEST, find_base
from dashboard.drawings.axes_figure import (
    INK,
    Area,
    AxesFigure,
    Axis,
    Item,
    Panel,
    Path,
    Rule,
    choose_linear_ticks,
    finish,
    name_axis,
    turn_down,
)
from experiments.statistics import Pair, numbers
from experiments.statistics.values import ALPHA, Interval

BAR, CAP = 0.34, 0.16
ROW = 5.2
NOTE = (
    "Whiskers: {level} intervals, of the ratio, which holds the baseline’s own uncertainty, and on "
    "the baseline’s bar of its mean alone."
)


def describe_bars(
    groups: Sequence[tuple[str, Sequence[Pair]]],
    *,
    marks: Mapping[str, int],
    hide: Callable[[str], str] = str,
) -> AxesFigure | None:
    """Describe the ratios of each configuration on one axis; None where there is no ratio.

    `groups` are pairs with the name of their configuration.
    """
    rows = [(title, _list_bars(pairs), pairs) for title, pairs in groups]
    rows = [row for row in rows if any(pair.ratio is not None for pair in row[2])]
    if not rows:
        return None
    bars = [bar for _, bars_of_group, _ in rows for bar in bars_of_group]
    ends = [end for _, ratio, interval in bars for end in (ratio, *(interval or ()))]
    high = 1.05 * min(max(end for end in ends if math.isfinite(end)), WIDEST)
    beyond = sum(ratio > high for _, ratio, _ in bars)
    alphas = {pair.alpha for _, _, pairs in rows for pair in pairs} or {ALPHA}
    notes = [NOTE.format(level=numbers.levels(alphas))]
    if beyond:
        notes.append(f"{numbers.count(beyond, 'bar')} longer than the axis.")
    baseline = rows[0][2][0].baseline
    return finish(
        AxesFigure(
            title=f"Ratios to {baseline} as bars",
            description=f"{numbers.count(len(bars), 'bar')}.",
            panels=tuple(
                _describe_panel(title, bars_of_group, high, baseline, marks)
                for title, bars_of_group, _ in rows
            ),
            notes=tuple(notes),
        ),
        hide,
    )


def _list_bars(pairs: Sequence[Pair]) -> list[tuple[str, float, Interval | None]]:
    """Return the baseline with the interval of its mean, then each environment with a ratio."""
    base = find_base(pairs)
    bars: list[tuple[str, float, Interval | None]] = []
    if base:
        own = base.interval(1 - pairs[0].alpha)
        relative = (own[0] / base.mean, own[1] / base.mean) if own else None
        bars.append((pairs[0].baseline, 1.0, relative))
    return bars + [
        (pair.environment, pair.ratio, pair.ci_difference)
        for pair in pairs
        if pair.ratio is not None
    ]


def _describe_panel(
    title: str,
    bars: Sequence[tuple[str, float, Interval | None]],
    high: float,
    baseline: str,
    marks: Mapping[str, int],
) -> Panel:
    items: list[Item] = []
    for row, (name, ratio, interval) in enumerate(bars):
        items.append(Area(0.0, ratio, row - BAR, row + BAR, f"mark {marks[name]}"))
        if interval:
            low, end = interval[0], min(interval[1], 1e300)
            x = (low, end, None, low, low, None, end, end)
            y = (row, row, None, row - CAP, row + CAP, None, row - CAP, row + CAP)
            items.append(Path(INK, x, y, width=0.7))
    items.append(Rule(1.0, None))
    return Panel(
        title,
        Axis(f"Ratio to {baseline}", 0.0, high, choose_linear_ticks(0.0, high, 5)),
        turn_down(name_axis([name for name, _, _ in bars])),
        tuple(items),
        height=ROW * len(bars) + 1.2,
    )
