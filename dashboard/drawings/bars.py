"""Ratios to the baseline as bars from zero, a panel for each configuration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from dashboard.charts.bars import WIDEST, find_base, list_bars
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
    alphas = {pair.alpha for _, pairs in groups for pair in pairs} or {ALPHA}
    rows = [
        (title, _list_bars(pairs, has_levels=len(alphas) > 1), pairs)
        for title, pairs in groups
        if any(pair.ratio is not None for pair in pairs)
    ]
    if not rows:
        return None
    bars = [bar for _, bars_of_group, _ in rows for bar in bars_of_group]
    ends = [end for _, _, ratio, interval in bars for end in (ratio, *(interval or ()))]
    high = 1.05 * min(max(end for end in ends if math.isfinite(end)), WIDEST)
    beyond = sum(ratio > high for _, _, ratio, _ in bars)
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


def _list_bars(
    pairs: Sequence[Pair], *, has_levels: bool
) -> list[tuple[str, str, float, Interval | None]]:
    """Return the name of each bar, its label, ratio and interval, the baseline first."""
    return [
        (name, f"{name}, {numbers.level(1 - alpha)}" if has_levels else name, ratio, interval)
        for name, ratio, interval, alpha in list_bars(pairs, find_base(pairs))
    ]


def _describe_panel(
    title: str,
    bars: Sequence[tuple[str, str, float, Interval | None]],
    high: float,
    baseline: str,
    marks: Mapping[str, int],
) -> Panel:
    items: list[Item] = []
    for row, (name, _, ratio, interval) in enumerate(bars):
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
        turn_down(name_axis([label for _, label, _, _ in bars])),
        tuple(items),
        height=ROW * len(bars) + 1.2,
    )
