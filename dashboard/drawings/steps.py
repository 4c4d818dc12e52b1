"""The steps inside runs: the tail of step times, losses, accuracies and other series."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dashboard.charts.style import close_log_range
from dashboard.charts.thinning import spread_evenly
from dashboard.drawings.axes_figure import (
    AxesFigure,
    Axis,
    Band,
    Item,
    Key,
    Panel,
    Path,
    Points,
    Rule,
    finish,
    make_linear_axis,
    scale_finite,
    take_axis,
)
from dashboard.drawings.step_traces import describe_traces
from experiments.statistics import numbers
from experiments.statistics.run_bands import MOST_BINS, RunBand, StepTrace
from experiments.statistics.steps import Curve, Tail

RUN, MEDIAN, TAIL = 0.4, 1.4, 1.2
MOST_LINES = 120
"""Thin lines of runs in a panel; of more those at equal distances are drawn."""
TAILS = (
    "Step times: the share of all steps, pooled over runs, that took at least so long; nothing is "
    "tested on them."
)
CURVES = "Thick lines: medians of the runs of an environment."
BANDS = "Bands: 10 to 90 % of the runs of an environment at each step, from three runs on."
STRETCHES = f"Bands and their lines: of {MOST_BINS} stretches of steps, by medians in each run."
SINGLE = "Thin lines: runs."


@dataclass(frozen=True)
class Series:
    """Curves of one number that runs report step by step, and their medians."""

    title: str
    unit: str
    curves: Sequence[Curve]
    medians: Sequence[Curve]
    is_log: bool = False
    bands: Sequence[RunBand] = ()
    """Of environments whose runs are drawn together, not each by itself."""

    @property
    def single(self) -> list[Curve]:
        """Return the curves of runs that are in no band."""
        banded = {run for band in self.bands for run in band.runs}
        return [curve for curve in self.curves if curve.run not in banded]

    @property
    def lines(self) -> list[Curve]:
        """Return the median of each environment: that of its band, where it has one."""
        of_bands = [Curve(band.environment, band.x, band.median) for band in self.bands]
        banded = {band.environment for band in self.bands}
        return of_bands + [curve for curve in self.medians if curve.environment not in banded]

    @property
    def has_stretches(self) -> bool:
        """Return whether a band has fewer places than its runs have steps."""
        steps = {curve.environment: len(curve.x) for curve in self.medians}
        return any(len(band.x) < steps.get(band.environment, 0) for band in self.bands)


@dataclass(frozen=True)
class Steps:
    """What the runs of one configuration recorded; what they did not is empty."""

    title: str
    tails: Sequence[Tail]
    series: Sequence[Series]
    accuracies: Sequence[Curve]
    target: float = 0.0
    traces: Sequence[StepTrace] = ()


def describe_steps(
    steps: Steps, *, marks: Mapping[str, int], hide: Callable[[str], str] = str
) -> AxesFigure | None:
    """Describe a panel for each kind of number; None where no run recorded any."""
    # First, so that panels of one scale stand beside and below each other.
    panels, notes = describe_traces(steps.traces, marks)
    if steps.tails:
        panels.append(_describe_tails(steps.tails, marks))
        notes.append(TAILS)
    drawn = [series for series in steps.series if _list_values(series.curves)]
    panels += [_describe_series(series, marks) for series in drawn]
    if drawn:
        notes.append(CURVES)
        notes += [BANDS] * any(series.bands for series in drawn)
        notes += [STRETCHES] * any(series.has_stretches for series in drawn)
        notes += [SINGLE] * any(series.single for series in drawn)
    if _list_values(steps.accuracies):
        panels.append(_describe_accuracies(steps, marks))
    if not panels:
        return None
    curves = [curve for series in drawn for curve in series.curves] + [*steps.accuracies]
    missing = sum(len(curve.y) - sum(map(math.isfinite, curve.y)) for curve in curves)
    if missing:
        notes.append(f"{numbers.count(missing, 'value')} not a number: gaps in the lines.")
    if any(len({c.run for c in series.single}) > MOST_LINES for series in drawn):
        notes.append(f"Of all runs {MOST_LINES} are drawn; medians are of all.")
    names = {curve.environment for curve in curves} | {tail.environment for tail in steps.tails}
    ordered = sorted(names, key=lambda name: marks[name])
    return finish(
        AxesFigure(
            title=f"Inside the runs: {steps.title}",
            description=f"{numbers.count(len(panels), 'panel')}.",
            panels=tuple(panels),
            keys=tuple(Key("line", marks[name], name) for name in ordered),
            notes=tuple(notes),
        ),
        hide,
    )


def _describe_tails(tails: Sequence[Tail], marks: Mapping[str, int]) -> Panel:
    factor, unit = numbers.si([tail.quantiles[0.95] for tail in tails], "s")
    most = max(tail.steps for tail in tails)
    decades = range(math.ceil(math.log10(most)) + 1)
    items: list[Item] = []
    for tail in tails:
        corners = [(value * factor, 100 * share) for value, share in _pair(tail)]
        line = corners[:1]
        for value, share in corners[1:]:
            # Longer than the step before took exactly the share of this one.
            line += [(line[-1][0], share), (value, share)]
        items.append(
            Path(
                marks[tail.environment],
                tuple(px for px, _ in line),
                tuple(py for _, py in line),
                width=TAIL,
                is_dashed=True,
            )
        )
    values = [value * factor for tail in tails for value in tail.values]
    return Panel(
        "",
        make_linear_axis(f"Step time ({unit})", values),
        Axis(
            "Steps that took as long or longer (%, log)",
            80.0 / most,
            125.0,
            tuple((100 / 10**decade, f"{100 / 10**decade:g}") for decade in decades),
            is_log=True,
        ),
        tuple(items),
    )


def _describe_series(series: Series, marks: Mapping[str, int]) -> Panel:
    values = _list_values([*series.single, *series.lines])
    for band in series.bands:
        values += filter(math.isfinite, (*band.low, *band.high))
    values = values or _list_values(series.curves)
    factor, unit = numbers.si([statistics.median(values)], series.unit)
    scaled = [value * factor for value in values]
    is_log = series.is_log and min(scaled) > 0
    title = series.title + (f" ({unit})" if unit not in ("", "1") else "")
    items: list[Item] = [
        Band(
            marks[band.environment],
            tuple(band.x),
            scale_finite(band.low, factor),
            scale_finite(band.high, factor),
        )
        for band in series.bands
    ]
    lines = [(curve, RUN, True) for curve in spread_evenly(series.single, MOST_LINES)]
    lines += [(curve, MEDIAN, False) for curve in series.lines]
    items += [
        Path(
            marks[curve.environment],
            tuple(curve.x),
            scale_finite(curve.y, factor),
            width,
            is_dashed=not is_pale,
            is_pale=is_pale,
        )
        for curve, width, is_pale in lines
    ]
    return Panel(
        "",
        make_linear_axis("Step", [x for curve in series.curves for x in curve.x]),
        take_axis(f"{title}, log", close_log_range(min(scaled), max(scaled)))
        if is_log
        else make_linear_axis(title, scaled),
        tuple(items),
    )


def _describe_accuracies(steps: Steps, marks: Mapping[str, int]) -> Panel:
    curves = steps.accuracies
    seconds = [x for curve in curves for x in curve.x]
    factor, unit = numbers.si(seconds, "s")
    items: list[Item] = []
    if steps.target:
        items.append(Rule(None, 100 * steps.target, f"target {numbers.margin(steps.target)}"))
    for curve in curves:
        mark, x = marks[curve.environment], tuple(at * factor for at in curve.x)
        items.append(Path(mark, x, scale_finite(curve.y, 100), 0.6))
        known = [(at, 100 * y) for at, y in zip(x, curve.y, strict=True) if math.isfinite(y)]
        points = tuple(at for at, _ in known), tuple(y for _, y in known)
        items.append(Points(mark, *points, is_small=True))
    values = [100 * value for value in _list_values(curves)]
    if steps.target:
        values.append(100 * steps.target)
    return Panel(
        "Accuracy",
        make_linear_axis(
            f"Time in steps ({unit})", [at * factor for at in seconds], from_zero=True
        ),
        make_linear_axis("Accuracy (%)", values),
        tuple(items),
    )


def _list_values(curves: Sequence[Curve]) -> list[float]:
    return [value for curve in curves for value in filter(math.isfinite, curve.y)]


def _pair(tail: Tail) -> list[tuple[float, float]]:
    return list(zip(tail.values, tail.shares, strict=True))
