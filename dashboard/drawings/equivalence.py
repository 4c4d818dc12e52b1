"""Equivalence curves: p of equivalence against the margin, a panel for each environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dashboard.charts.equivalence import (
    LOWEST_P,
    choose_margin_range,
    choose_margins,
    compute_drawn_curve,
    list_levels,
    list_margin_ticks,
    list_p_ticks,
)
from dashboard.drawings.axes_figure import (
    Area,
    AxesFigure,
    Axis,
    Item,
    Note,
    Panel,
    Path,
    Points,
    Rule,
    finish,
)
from experiments.statistics import Pair, numbers

HIGHEST_P = 1.4
NO_ROOM = 0.68
"""Of the axis: right of it a number would leave the panel."""
NOTE = (
    "Shaded: equivalent, p below {level}. Symbols: the smallest margin that these runs prove. "
    "Dashed: the margin of the plan, {margin}."
)


def describe_equivalence(
    groups: Sequence[tuple[str, Sequence[Pair]]],
    *,
    margin: float,
    marks: Mapping[str, int],
    hide: Callable[[str], str] = str,
) -> AxesFigure | None:
    """Describe a panel for each pair with an inference; None where there is none.

    `groups` are pairs with the name of their configuration. All panels of one have one scale; each
    is shaded up to the level of its own verdict.
    """
    panels = [
        panel for title, pairs in groups for panel in _describe_group(title, pairs, margin, marks)
    ]
    if not panels:
        return None
    levels = list_levels(
        [pair for _, pairs in groups for pair in pairs if pair.smallest_margin is not None]
    )
    level = " or ".join(f"{level:g}" for level in levels)
    note = NOTE.format(level=level, margin=numbers.margin(margin))
    return finish(
        AxesFigure(
            title="Equivalence by margin",
            description=f"{numbers.count(len(panels), 'comparison')}.",
            panels=tuple(panels),
            notes=(note,),
            columns=3,
        ),
        hide,
    )


def _describe_group(
    title: str, pairs: Sequence[Pair], margin: float, marks: Mapping[str, int]
) -> list[Panel]:
    drawn = [pair for pair in pairs if pair.smallest_margin is not None]
    if not drawn:
        return []
    low, high = choose_margin_range(drawn, margin)
    x = Axis(
        "Margin (%, log)",
        100 * low,
        100 * high,
        tuple((float(tick), f"{tick:g}") for tick in (0.1, 0.2, 0.5)) * (low <= 0.001)
        + tuple((float(tick), f"{tick:g}") for tick in list_margin_ticks(low, high) if tick >= 1),
        is_log=True,
    )
    margins = choose_margins(low, high)
    return [
        Panel(
            f"{pair.environment}: {title}" if title else pair.environment,
            x,
            Axis(
                "p of equivalence (log)",
                0.8 * LOWEST_P,
                HIGHEST_P,
                tuple((p, f"{p:g}") for p in list_p_ticks(pair.alpha)),
                is_log=True,
            ),
            (
                Area(None, None, None, pair.alpha),
                Rule(None, pair.alpha, is_dashed=False),
                Rule(100 * margin, None),
                *_draw_curve(pair, margins, x, marks[pair.environment]),
            ),
            height=40.0,
        )
        for pair in drawn
    ]


def _draw_curve(pair: Pair, margins: Sequence[float], x: Axis, mark: int) -> tuple[Item, ...]:
    """Return the curve, and the smallest margin where it crosses the level.

    Its number stands on the side where the curve is not: right of it above, or left of it below.
    """
    smallest, level = 100 * (pair.smallest_margin or 0.0), pair.alpha
    curve = tuple(compute_drawn_curve(pair, margins))
    is_left = x.find_share(smallest) > NO_ROOM
    text = numbers.provable(pair.smallest_margin, decimals=2)
    return (
        Path(mark, tuple(100 * margin for margin in margins), curve, width=1.8),
        Points(mark, (smallest,), (level,)),
        Note(
            smallest,
            level * (0.5 if is_left else 2.0),
            text,
            is_bold=True,
            is_left=is_left,
            ground="band" if is_left else "paper",
        ),
    )
