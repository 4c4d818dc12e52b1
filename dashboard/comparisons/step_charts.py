"""The charts of the steps inside the runs of a group, with their captions and tables."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dashboard.charts import Figure, Marks, draw_accuracy_curves, draw_loss_curves, draw_tails
from dashboard.comparisons.figures import Plot
from dashboard.comparisons.metric_words import say_words
from experiments.comparisons.series import Inside
from experiments.statistics import numbers
from experiments.statistics.steps import Curve, Losses, describe_agreements

TAILS = (
    "The ECDF from its tail: steps of all runs after their start-up, pooled, to look at rare "
    "slow ones. Nothing is tested on pooled steps; the verdict comes from whole runs. A curve ends "
    "at its longest step."
)
LOGGED = " The logs have means of several steps, which hide rare slow ones."
UNKNOWN_SEEDS = "The seeds of these runs are not known: their losses are not compared bitwise."
ACCURACIES = "accuracy"
LOSSES = "A thin line a run, the thick one the median of an environment."
ACCURACY = (
    "Each point is an evaluation on images that were not trained on, against the time in steps "
    "until then; evaluations themselves do not count."
)


def draw_steps(
    series: Inside,
    marks: Marks,
    name: str,
    needs_figure: Callable[[str, int], bool] = lambda key, points: True,
) -> dict[str, Plot]:
    """Return the plots of the steps inside a group's runs, by keys such as "losses", "other-2".

    `name` keeps the ids of several groups apart. Where `needs_figure` denies it for a key and a
    number of points, the figure stays empty: to draw a large one takes long.
    """
    return {
        chart.key: Plot(
            f"{chart.key}-{name}",
            chart.draw() if needs_figure(chart.key, chart.points) else {},
            chart.caption,
            chart.title,
            is_drawn_otherwise=True,
        )
        for chart in _list_charts(series, marks)
    }


@dataclass(frozen=True)
class _Chart:
    """A chart, and the function that draws it."""

    key: str
    points: int
    caption: str
    title: str
    draw: Callable[[], Figure]


def _list_charts(series: Inside, marks: Marks) -> Iterator[_Chart]:
    if series.tails:
        points = sum(len(tail.values) for tail in series.tails)
        draw = partial(draw_tails, series.tails, unit="s", metric="step time", marks=marks)
        yield _Chart("tails", points, TAILS + LOGGED * series.is_logged, "Step times", draw)
    if series.losses.curves:
        draw = partial(_draw_losses, series.losses, metric="loss", unit="1", marks=marks)
        caption = LOSSES + _describe_thinning(series.losses)
        yield _Chart("losses", _count_points(series.losses.curves), caption, "Loss", draw)
    for metric, curves in {ACCURACIES: series.accuracies, **series.further_shares}.items():
        if curves:
            label = metric.replace("_", " ").capitalize().replace("iou", "IoU")
            target = series.target or None if metric == ACCURACIES else None
            draw = partial(
                draw_accuracy_curves, curves, metric=label.lower(), marks=marks, target=target
            )
            yield _Chart(metric, _count_points(curves), ACCURACY, label, draw)
    for number, other in enumerate(series.others):
        metric = other.metric.replace("_", " ")
        draw = partial(
            _draw_losses, other.drawn, metric=metric, unit=other.unit, marks=marks, log=False
        )
        caption = LOSSES + _describe_thinning(other.drawn)
        title = f"{say_words(other.metric)}, step by step"
        yield _Chart(f"other-{number}", _count_points(other.drawn.curves), caption, title, draw)


def _draw_losses(losses: Losses, **options: Any) -> Figure:
    return draw_loss_curves(losses.curves, losses.medians, **options)


def _count_points(curves: Sequence[Curve]) -> int:
    return sum(len(curve.x) for curve in curves)


def _describe_thinning(losses: Losses) -> str:
    drawn, steps = losses.drawn_steps, losses.steps
    return f" Of {steps:,} steps {drawn} are drawn." if drawn < steps else ""


def describe_losses(series: Inside, baseline: str) -> list[str]:
    """Return a sentence for each environment on the losses of runs with the same seed."""
    if series.losses.curves and not series.losses.agreements:
        return [UNKNOWN_SEEDS]
    return describe_agreements(series.losses.agreements, baseline=baseline)


def describe_quantiles(series: Inside) -> list[tuple[str, list[str]]]:
    """Return each environment with its steps, median, tail and longest step; one unit for all."""
    factor, unit = numbers.si([tail.quantiles[0.95] for tail in series.tails], "s")
    middle = max((tail.quantiles[0.5] * factor for tail in series.tails), default=1.0)
    decimals = max(0, 3 - math.floor(math.log10(middle))) if middle > 0 else 3
    return [
        (
            tail.environment,
            [
                f"{tail.steps:,}",
                str(tail.runs),
                *(f"{numbers.fixed(v * factor, decimals)} {unit}" for v in tail.quantiles.values()),
            ],
        )
        for tail in series.tails
    ]


def describe_traces(series: Inside) -> list[tuple[str, int, list[list[str]]]]:
    """Return the table behind the step times over the run: of each environment, a row for each bin.

    A row has the steps, the median of the runs, and the ends of the band; one unit for all.
    """
    medians = [v for trace in series.traces for v in trace.band.median if math.isfinite(v)]
    factor, unit = numbers.si([statistics.median(medians)] if medians else [], "s")
    tables = []
    for trace in series.traces:
        band = trace.band
        rows = [
            [
                f"{first:,}\N{EN DASH}{last:,}",
                *(f"{value * factor:.4g} {unit}" for value in values),
            ]
            for (first, last), *values in zip(
                trace.bins, band.median, band.low, band.high, strict=True
            )
            if all(map(math.isfinite, values))
        ]
        tables.append((band.environment, len(band.runs), rows))
    return tables
