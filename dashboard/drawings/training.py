"""Differences of whole loss curves from the baseline: a panel for each environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dashboard.charts.curve_differences import scale_difference
from dashboard.drawings.axes_figure import (
    MUTED,
    AxesFigure,
    Item,
    Panel,
    Path,
    Points,
    Rule,
    finish,
    make_linear_axis,
    scale_finite,
)
from experiments.statistics import numbers
from experiments.statistics.training.loss_curves import CurvePair

MEAN, BAND = 1.4, 0.7
NOTES = ("Thick: the mean difference of the loss from the baseline.",)
DASHED = "Dashed: what chance alone leaves in at most 5 of 100 such experiments, anywhere."


def describe_training(
    groups: Sequence[tuple[str, Sequence[CurvePair]]],
    *,
    marks: Mapping[str, int],
    hide: Callable[[str], str] = str,
) -> AxesFigure | None:
    """Describe the curves of groups, each with its name; None where no difference was computed."""
    drawn = [(title, pair) for title, pairs in groups for pair in pairs if pair.x]
    if not drawn:
        return None
    notes = NOTES + (DASHED,) * any(pair.band for _, pair in drawn)
    return finish(
        AxesFigure(
            title="Differences of loss curves from the baseline",
            description=f"{numbers.count(len(drawn), 'comparison')}.",
            panels=tuple(_describe_pair(title, pair, marks) for title, pair in drawn),
            notes=notes,
        ),
        hide,
    )


def _describe_pair(title: str, pair: CurvePair, marks: Mapping[str, int]) -> Panel:
    mark = marks[pair.environment]
    x = tuple(float(step) for step in pair.x)
    means = [scale_difference(pair, value) for value in pair.difference]
    upper = [scale_difference(pair, half) for half in pair.band]
    lower = [scale_difference(pair, -half) for half in pair.band]
    items: list[Item] = [Rule(None, 0.0, is_dashed=False)]
    items += [
        Path(MUTED, x, scale_finite(ends), BAND, is_dashed=True) for ends in (upper, lower) if ends
    ]
    shown = scale_finite(means)
    if len(x) > 1:
        items.append(Path(mark, x, shown, MEAN, is_dashed=True))
    else:
        items.append(Points(mark, x, tuple(value or 0.0 for value in shown)))
    unit = " (%)" if pair.is_relative else ""
    return Panel(
        f"{pair.environment}: {title}" if title else pair.environment,
        make_linear_axis("Step", x),
        make_linear_axis(f"Difference of the loss{unit}", [*means, *upper, *lower, 0.0]),
        tuple(items),
    )
