"""The forest plot of a comparison: each ratio with its intervals, the margin and the verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from dashboard.charts.style import (
    MONOSPACE,
    MUTED,
    Figure,
    Marks,
    axis,
    band,
    colour,
    label,
    layout,
    meta,
    note,
    symbol,
)
from experiments.statistics import Pair, Verdict, numbers
from experiments.statistics.claims import choose_wording, describe_margin, quote_goal
from experiments.statistics.margins import Margin
from experiments.statistics.pooling import Pooled
from experiments.statistics.values import ALPHA, Interval

ROW_HEIGHT = 38
STAMP_HEIGHT = 14
STAMPS_WIDE = 34
"""Characters of stamps on a line: what fits beside the plot."""
COLUMNS = {"ratio": 22, "data": 236, "verdict": 314}
"""Text to the right of the plot, and how many pixels from it each column begins."""
RIGHT = 520
GAP = 12
"""Pixels between the plot and the names to its left, so that no interval runs into one."""
HEADING = 30
"""Characters of a heading on a line; it has two."""
WIDEST = 2.0
"""Intervals beyond this ratio (or its inverse) run out of the plot; their numbers stand beside."""
POOLED = "Pooled over configurations"
HALF_DIAMOND = 9
"""Pixels."""
STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True)
class Row:
    """A pair with the heading of its group, such as "cnn · 1x2"."""

    group: str
    pair: Pair


def draw_forest(
    rows: Sequence[Row], *, margin: float | Margin, marks: Marks, pooled: Sequence[Pooled] = ()
) -> Figure:
    """Draw ratios to the baseline on a log axis, in the order of rows, with group headings.

    Thin line: 95 % interval. Thick line: 90 %; equivalent where it lies inside the margin's band.
    The band has one end where only "not slower" is to be shown, and is left out where an uneven
    margin would be another one in some rows. Where interim analyses were planned, intervals are
    wider: those of their level.
    A hollow symbol has no interval. Below stands a diamond for each mean over configurations, as
    wide as its interval; a dashed line shows where one more configuration would lie.
    """
    places, headings, end = _places(rows)
    pairs = [row.pair for row in rows]
    means = [mean for mean in pooled if mean.ratio is not None and _is_finite(mean.interval)]
    if means:
        headings.append((end + ROW_HEIGHT // 2 + 4, POOLED))
        end += ROW_HEIGHT
    diamonds = [end + ROW_HEIGHT * place + ROW_HEIGHT // 2 for place in range(len(means))]
    end += ROW_HEIGHT * len(means)
    margin = Margin.of(margin)
    common_bounds = margin.find_common_bounds({pair.better for pair in pairs})
    bounds = common_bounds or (1.0, 1.0)
    low, high = _range(pairs, bounds, means)
    return {
        "data": [
            *_traces(places, pairs, marks),
            *(
                trace
                for y, mean in zip(diamonds, means, strict=True)
                for trace in _draw_diamond(y, mean, marks[mean.environment])
            ),
        ],
        "layout": layout(
            height=end + 44 + 68,
            margin={"r": RIGHT, "t": 44, "b": 68},
            xaxis=axis(
                _title(pairs),
                type="log",
                range=[math.log10(low), math.log10(high)],
                **_ticks(low, high),
            ),
            yaxis=axis(
                range=[end, 0],
                # Headings stand beside the plot, like names: nothing is written across it.
                tickvals=[*places, *diamonds, *(y for y, _ in headings)],
                ticktext=[
                    *(label(pair.environment, longest=28) for pair in pairs),
                    *(label(mean.environment, longest=28) for mean in means),
                    *(_heading(group) for _, group in headings),
                ],
                ticks="outside",
                ticklen=GAP,
                tickcolor="rgba(0,0,0,0)",
                showgrid=False,
                fixedrange=True,
            ),
            shapes=[
                band(
                    xref="x",
                    x0=max(bounds[0], low),
                    x1=min(bounds[1], high),
                    yref="paper",
                    y0=0,
                    y1=1,
                ),
                {
                    "type": "line",
                    "name": "reference",
                    "layer": "below",
                    "line": {"color": MUTED, "width": 1.5},
                    "xref": "x",
                    "x0": 1,
                    "x1": 1,
                    "yref": "paper",
                    "y0": 0,
                    "y1": 1,
                },
            ],
            # For its table: the axis without its sides, the rows with their groups.
            meta={
                "x": _ratio_to(pairs),
                "rows": [
                    *(f"{label(row.group)}: {label(row.pair.environment)}" for row in rows),
                    *(f"{POOLED}: {label(mean.environment)}" for mean in means),
                ],
            },
            annotations=[
                note(
                    f"margin {'±' if margin.is_symmetric else ''}"
                    f"{describe_margin(margin, choose_wording(pairs))}"
                    f"{'' if common_bounds else ', not shaded'}",
                    name="muted",
                    xref="x",
                    x=0,
                    yref="paper",
                    y=1,
                    yanchor="bottom",
                ),
                *(_beside(text, column, name="muted") for column, text in _headings(pairs).items()),
                *(
                    mark
                    for y, pair in zip(places, pairs, strict=True)
                    for mark in _cut(y, pair, low, high)
                ),
                *(text for y, pair in zip(places, pairs, strict=True) for text in _words(y, pair)),
            ],
        ),
    }


def _places(rows: Sequence[Row]) -> tuple[list[int], list[tuple[int, str]], int]:
    """Return the middle of each row and heading, and the total height, in pixels from the top."""
    places: list[int] = []
    headings: list[tuple[int, str]] = []
    end = 0
    for i, row in enumerate(rows):
        if i == 0 or row.group != rows[i - 1].group:
            headings.append((end + ROW_HEIGHT // 2 + 4, row.group))
            end += ROW_HEIGHT
        height = ROW_HEIGHT + STAMP_HEIGHT * max(len(_stamp_lines(row.pair)) - 1, 0)
        places.append(end + height // 2)
        end += height
    return places, headings, end


def _heading(group: str) -> str:
    """Return the group's name in bold, on two lines where it is long."""
    first, *rest = wrap(group, HEADING) or [""]
    second = f"<br>{label(' '.join(rest), longest=HEADING)}" if rest else ""
    return f"<b>{label(first)}{second}</b>"


def _cut(y: int, pair: Pair, low: float, high: float) -> Iterator[dict[str, Any]]:
    """Yield an arrow at the side where an interval continues beyond the plot."""
    start, end = pair.ci_difference or (low, high)
    for is_cut, x, side, text in ((start < low, 0, "right", "◂"), (end > high, 1, "left", "▸")):
        if is_cut:
            yield note(text, name="muted", xref="paper", x=x, xanchor=side, y=y)


def _stamp_lines(pair: Pair) -> list[str]:
    """Return the stamps in lines: beside each other where they fit, a long one on two."""
    lines: list[str] = []
    for stamp in pair.stamps:
        if lines and len(lines[-1]) + len(stamp.label) + 3 <= STAMPS_WIDE:
            lines[-1] += f" · {stamp.label}"
        else:
            lines += wrap(stamp.label, STAMPS_WIDE)
    return lines


def _traces(places: Sequence[int], pairs: Sequence[Pair], marks: Marks) -> Iterator[dict[str, Any]]:
    """Yield the thin lines, the thick lines and the symbols of each environment."""
    for index in sorted({marks[pair.environment] for pair in pairs}):
        mine = [
            (y, pair)
            for y, pair in zip(places, pairs, strict=True)
            if marks[pair.environment] == index and pair.ratio is not None
        ]
        shared = {"type": "scatter", "meta": meta(index), "cliponaxis": True}
        for width, name, intervals in (
            (2, f"{_level(pairs, 1)} interval", [(y, pair.ci_difference) for y, pair in mine]),
            (6, f"{_level(pairs, 2)} interval", [(y, pair.ci_equivalence) for y, pair in mine]),
        ):
            yield {
                **shared,
                "name": name,
                **_segments(intervals),
                "mode": "lines",
                "line": {"color": colour(index), "width": width},
                "hoverinfo": "skip",
            }
        yield {
            **shared,
            "name": "ratio",
            "x": [pair.ratio for _, pair in mine],
            "y": [y for y, _ in mine],
            "mode": "markers",
            "marker": {
                "symbol": [symbol(index) + "-open" * (pair.ci95 is None) for _, pair in mine],
                "color": colour(index),
                "size": 11,
                "line": {"width": 1.5, "color": "#ffffff"},
            },
            "text": [_hover(pair) for _, pair in mine],
            "hovertemplate": "%{text}<extra></extra>",
        }


def _draw_diamond(y: int, mean: Pooled, index: int) -> Iterator[dict[str, Any]]:
    """Yield the prediction interval as a dashed line, and the mean as a diamond."""
    shared = {"type": "scatter", "mode": "lines", "meta": meta(index)}
    level = numbers.level(mean.level)
    if mean.prediction and _is_finite(mean.prediction):
        yield {
            **shared,
            "name": f"{level} prediction interval",
            "x": list(mean.prediction),
            "y": [y, y],
            "line": {"color": colour(index), "width": 2, "dash": "dash"},
            "hoverinfo": "skip",
        }
    if mean.interval and mean.ratio is not None:
        (low, high), top, bottom = mean.interval, y - HALF_DIAMOND, y + HALF_DIAMOND
        yield {
            **shared,
            "name": f"pooled, {level} interval",
            "x": [low, mean.ratio, high, mean.ratio, low],
            "y": [y, top, y, bottom, y],
            "fill": "toself",
            "fillcolor": colour(index),
            "line": {"color": colour(index), "width": 1},
            "hoveron": "fills",
            "hoverinfo": "text",
            "text": f"{label(mean.environment)}, pooled: "
            f"{numbers.ratio(mean.ratio, mean.interval)} ({level} CI)",
        }


def _is_finite(interval: Interval | None) -> bool:
    return interval is not None and all(map(math.isfinite, interval))


def _segments(intervals: Sequence[tuple[int, Interval | None]]) -> dict[str, list[float | None]]:
    """Return many lines as one trace; a null separates two of them."""
    known = [(y, interval) for y, interval in intervals if interval is not None]
    return {
        "x": [x for _, (low, high) in known for x in (low, high, None)],
        "y": [place for y, _ in known for place in (y, y, None)],
    }


def _hover(pair: Pair) -> str:
    wording = choose_wording([pair])
    goal = quote_goal(pair.goal, wording)
    lines = [
        f"<b>{label(pair.environment)}</b> / {label(pair.baseline)}",
        f"ratio {numbers.ratio(pair.ratio, pair.ci_difference)} ({_level([pair], 1)} CI)",
        f"cost {numbers.change(pair.cost, pair.ci_difference)}",
        pair.size_on_nodes,
        f"p of a difference {numbers.p_value(pair.p_difference)}",
        f"p of {goal} at {describe_margin(pair.margins, wording)} {numbers.p_value(pair.p_goal)}",
    ]
    if pair.smallest_margin is not None:
        lines.append(f"smallest margin for {goal} {numbers.provable(pair.smallest_margin)}")
    return "<br>".join(lines)


def _words(y: int, pair: Pair) -> Iterator[dict[str, Any]]:
    """Yield the numbers and the verdict beside a row."""
    mono = {"family": MONOSPACE, "size": 12}
    yield _beside(numbers.ratio(pair.ratio, pair.ci_difference), "ratio", y, font=mono)
    yield _beside(pair.size, "data", y, name="muted")
    verdict = f"<b>{pair.verdict}</b>" if pair.verdict != Verdict.NO_INFERENCE else pair.verdict
    small = "".join(
        f'<br><span style="font-size:10px">{line}</span>' for line in _stamp_lines(pair)
    )
    yield _beside(verdict + small, "verdict", y)


def _beside(text: str, column: str, y: int | None = None, **options: Any) -> dict[str, Any]:
    """Return a note in a column right of the plot; without a row it is the column's heading."""
    place = {"y": y} if y is not None else {"yref": "paper", "y": 1, "yanchor": "bottom"}
    return note(
        text,
        xref="paper",
        x=1,
        xanchor="left",
        xshift=COLUMNS[column],
        align="left",
        **place,
        **options,
    )


def _headings(pairs: Sequence[Pair]) -> dict[str, str]:
    """Return the headings of the columns of text."""
    return {name: name for name in COLUMNS} | {"ratio": f"ratio [{_level(pairs, 1)} CI]"}


def _level(pairs: Sequence[Pair], sides: int) -> str:
    """Return the level of the interval for difference (1) or for equivalence (2)."""
    return numbers.levels({pair.alpha for pair in pairs} or {ALPHA}, sides)


def _title(pairs: Sequence[Pair]) -> str:
    """Return the title of the axis; it names the sides where all rows have one direction."""
    title = f"{_ratio_to(pairs)} (log scale)"
    directions = {pair.better for pair in pairs}
    if len(directions) != 1 or None in directions:
        return title
    sides = choose_wording(pairs).sides
    left, right = sides if directions == {"lower"} else sides[::-1]
    return f"←  {left}      {title}      {right}  →"


def _ratio_to(pairs: Sequence[Pair]) -> str:
    baselines = {label(pair.baseline) for pair in pairs}
    return f"ratio to {' or '.join(sorted(baselines)) or 'the baseline'}"


def _range(pairs: Sequence[Pair], bounds: Interval, means: Sequence[Pooled]) -> Interval:
    """Return the range of the axis: all points, the margin, and intervals up to a limit."""
    ratios = [*(pair.ratio for pair in pairs), *(mean.ratio for mean in means)]
    points = [ratio for ratio in ratios if ratio is not None]
    intervals = [
        *(pair.ci_difference for pair in pairs),
        *(mean.interval for mean in means),
        *(mean.prediction for mean in means if _is_finite(mean.prediction)),
    ]
    ends = [min(max(end, 1 / WIDEST), WIDEST) for interval in intervals for end in interval or ()]
    values = [*(end for end in bounds if 0 < end < math.inf), 1.0, *points, *ends]
    low, high = min(values), max(values)
    room = (high / low) ** 0.07
    return low / room, high * room


def _ticks(low: float, high: float) -> dict[str, Any]:
    """Return at most about eight round ratios: plotly's own log ticks are made for decades."""
    step = next((step for step in STEPS if (high - low) / step <= 8), None)
    if step is None or low < step:
        values = [m * 10.0**e for e in range(-9, 10) for m in (1, 2, 5)]
        values = [value for value in values if low <= value <= high]
        return {"tickvals": values, "ticktext": [f"{value:g}" for value in values]}
    count = range(math.ceil(low / step), math.floor(high / step) + 1)
    decimals = max(0, -math.floor(math.log10(step)))
    return {
        "tickvals": [round(i * step, 6) for i in count],
        "ticktext": [f"{i * step:.{decimals}f}" for i in count],
    }
