"""Step times over the run: a panel for each environment, all of its runs together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from dashboard.drawings.axes_figure import (
    INK,
    Area,
    Axis,
    Band,
    Item,
    Panel,
    Path,
    make_linear_axis,
    scale_finite,
)
from experiments.statistics import numbers
from experiments.statistics.run_bands import StepTrace

MEDIAN, TICK = 1.2, 0.6
TICK_HEIGHT = 0.06
"""Of the axis: the tick where a run's warm-up ends."""
FAR = 3.0
"""Warm-up steps this many times above all steady ones are cut off and counted in words."""
NOTE = (
    "Step time: in each run, medians of {bins}; line and band: median and 10 to 90 % over the runs "
    "of an environment."
)
WARM_UPS = "Shaded: the warm-up, to the median of its ends, which are ticks below, one a run."


def describe_traces(
    traces: Sequence[StepTrace], marks: Mapping[str, int]
) -> tuple[list[Panel], list[str]]:
    """Return a panel for each environment, on one scale, with the sentences that explain them."""
    shown = [trace for trace in traces if _list_finite(trace.band.median)]
    if not shown:
        return [], []
    steady = [value for trace in shown for value in _list_steady(trace)]
    factor, unit = numbers.si([median(steady)], "s")
    lowest, highest = min(steady), max(steady)
    everything = [value for trace in shown for value in _list_finite(trace.band.high)]
    far = [value for value in everything if value > FAR * highest > 0]
    top = highest + 0.3 * (highest - lowest or highest) if far else max(highest, *everything)
    y = make_linear_axis(f"Step time ({unit})", [lowest * factor, top * factor])
    x = make_linear_axis("Step", [0.0, float(max(trace.last for trace in shown))], from_zero=True)
    sizes = sorted({trace.steps_a_bin for trace in shown})
    notes = [NOTE.format(bins=" or ".join(numbers.count(size, "step") for size in sizes))]
    notes += [WARM_UPS] * any(any(trace.warm_ups) for trace in shown)
    for trace in shown:
        above = [value * factor for value in _list_finite(trace.band.high)]
        above = [value for value in above if value > y.high]
        if above:
            notes.append(
                f"{trace.band.environment}: {numbers.count(len(above), 'bin')} reach"
                f"{'es' * (len(above) == 1)} above the axis, up to {max(above):.4g} {unit}."
            )
    return [_describe_trace(trace, marks, x, y, factor) for trace in shown], notes


def _describe_trace(
    trace: StepTrace, marks: Mapping[str, int], x: Axis, y: Axis, factor: float
) -> Panel:
    band, mark = trace.band, marks[trace.band.environment]
    low, middle, high = (
        scale_finite(values, factor) for values in (band.low, band.median, band.high)
    )
    items: list[Item] = []
    ends = [warm_up for warm_up in trace.warm_ups if warm_up]
    if ends:
        items.append(Area(0.5, median(trace.warm_ups) + 0.5, None, None))
    items += [Band(mark, tuple(band.x), low, high), Path(mark, tuple(band.x), middle, MEDIAN)]
    if ends:
        tick = y.low, y.low + TICK_HEIGHT * (y.high - y.low), None
        places = tuple(place for end in ends for place in (end + 0.5, end + 0.5, None))
        items.append(Path(INK, places, tick * len(ends), TICK))
    title = f"{band.environment}, {numbers.count(len(band.runs), 'run')}"
    return Panel(title, x, y, tuple(items))


def _list_steady(trace: StepTrace) -> list[float]:
    """Return both ends of the band after the warm-ups; of all bins where nothing is after them."""
    cut = max(trace.warm_ups, default=0)
    band = trace.band
    rows = list(zip(trace.bins, band.low, band.high, strict=True))
    after = [row for row in rows if row[0][0] > cut] or rows
    finite = [value for _, *ends in after for value in ends if math.isfinite(value)]
    return finite or _list_finite(band.median)


def _list_finite(values: Sequence[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]
