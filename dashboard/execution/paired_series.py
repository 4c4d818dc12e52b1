"""What two runs recorded step by step, on the same axes: some of it drawn, the rest by choice.

First as a picture of the one renderer, then as charts that can be zoomed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dashboard.charts import draw_paired_curves
from dashboard.comparisons.figures import Plot
from dashboard.comparisons.metric_words import say_words
from dashboard.comparisons.paired_facts import Side
from dashboard.drawings.axes_figure import AxesFigure
from dashboard.drawings.paired_series import PairedCurves, describe_paired_series
from dashboard.execution.run_facts import EVALUATED_AT
from experiments.comparisons.series import ACCURACY, ACCURACY_TIME, FURTHER_SHARES
from experiments.comparisons.step_summaries import LOSS
from experiments.models import Run, Series
from experiments.natural_order import make_natural_key
from experiments.statistics.steps import Curve

MOST_PLOTS = 6
"""Drawn at once: each takes a browser some tenths of a second."""
MOST_NAMES = 1_000
"""Series that can be chosen from the list; addresses name any other."""


@dataclass(frozen=True)
class PairedSeries:
    """The series of two runs, ready to be shown."""

    names: list[str]
    """Of those that can be chosen, the drawn ones among them."""
    count: int
    chosen: str
    """The one that the reader has chosen; empty for the first ones."""
    plots: list[Plot]
    curves: tuple[PairedCurves, ...] = ()
    """What the plots draw."""

    @property
    def has_choice(self) -> bool:
        return self.count > MOST_PLOTS

    @property
    def first(self) -> int:
        """Return how many are drawn where none is chosen."""
        return MOST_PLOTS

    @property
    def more_names(self) -> int:
        """Return how many series the list leaves out."""
        return self.count - len(self.names)


def draw_paired_series(
    left: Run, right: Run, heads: tuple[Side, Side], chosen: str = ""
) -> PairedSeries:
    """Return the series of both runs: plots of the first ones, or of the `chosen` one alone.

    Those of both runs come first. Two statements: values are read of those alone that are drawn.
    """
    names, chosen, read = _read(left, right, heads, chosen)
    marks = _list_marks(heads)
    plots = [_draw(each, marks, number) for number, each in enumerate(read)]
    return PairedSeries(names[:MOST_NAMES], len(names), chosen, plots, tuple(read))


def describe_series_of_two(
    series: PairedSeries, heads: tuple[Side, Side], hide: Callable[[str], str]
) -> AxesFigure | None:
    """Return the printed figure of the drawn series; None where none of them has a number."""
    names = [side.name for side in heads]
    return describe_paired_series(series.curves, names=names, marks=_list_marks(heads), hide=hide)


def _list_marks(heads: tuple[Side, Side]) -> dict[str, int]:
    return {side.name: side.mark or 0 for side in heads}


def _read(
    left: Run, right: Run, heads: tuple[Side, Side], chosen: str
) -> tuple[list[str], str, list[PairedCurves]]:
    """Return the names of all series, the chosen one where it is known, and those to be drawn."""
    sides = {left.pk: heads[0], right.pk: heads[1]}
    runs_by_key: dict[tuple[str, str], set[int]] = {}
    rows = Series.objects.filter(run__in=sides).exclude(metric__in=EVALUATED_AT).order_by()
    for metric, unit, run in rows.values_list("metric", "unit", "run"):
        runs_by_key.setdefault((metric, unit), set()).add(run)
    order = sorted(
        runs_by_key,
        key=lambda key: (
            -len(runs_by_key[key]),
            key[0] != "step_time",
            *map(make_natural_key, key),
        ),
    )
    names = list(dict.fromkeys(metric for metric, _ in order))
    chosen = chosen if chosen in names else ""
    keys = [key for key in order if not chosen or key[0] == chosen][:MOST_PLOTS]
    return names, chosen, _read_keys(keys, sides) if keys else []


def _read_keys(keys: list[tuple[str, str]], sides: Mapping[int, Side]) -> list[PairedCurves]:
    recorded: dict[tuple[str, str], dict[str, Series]] = {}
    times: dict[str, Series] = {}
    metrics = {metric for metric, _ in keys}
    if metrics & {ACCURACY, *FURTHER_SHARES}:
        metrics.add(ACCURACY_TIME)
    for row in Series.objects.filter(run__in=sides, metric__in=metrics).order_by("pk"):
        name = sides[row.run_id].name
        if row.metric == ACCURACY_TIME:
            times[name] = row
        else:
            recorded.setdefault((row.metric, row.unit), {})[name] = row
    in_order = [side.name for side in sides.values()]
    paired = []
    for key in keys:
        by_name = recorded.get(key, {})
        rows = {name: by_name[name] for name in in_order if name in by_name}
        if rows:
            paired.append(_pair(*key, rows, times))
    return paired


def _pair(
    metric: str, unit: str, rows: Mapping[str, Series], times: Mapping[str, Series]
) -> PairedCurves:
    by_time = metric in (ACCURACY, *FURTHER_SHARES) and all(
        name in times and len(times[name].values) == len(row.values) for name, row in rows.items()
    )
    curves = [
        Curve(
            name,
            times[name].values if by_time else row.steps or range(1, len(row.values) + 1),
            row.values,
        )
        for name, row in rows.items()
    ]
    warm_ups = {
        name: next((n for n in (row.warm_up, row.burn_in) if n is not None), 0)
        for name, row in rows.items()
        if not row.steps
    }
    return PairedCurves(
        say_words(metric),
        "" if unit == "1" else unit,
        curves,
        warm_ups,
        "Time in steps (s)" if by_time else "Step",
        is_log=metric == LOSS,
    )


def _draw(series: PairedCurves, marks: Mapping[str, int], number: int) -> Plot:
    figure, sentences = draw_paired_curves(
        series.curves,
        unit=series.unit,
        metric=series.title.lower(),
        marks=marks,
        warm_ups=series.warm_ups,
        log=series.is_log,
        x_title=series.x_title.lower(),
    )
    caption = [f"{series.title} inside both runs."]
    if len(series.curves) == 1:
        caption = [f"{series.title} inside {series.curves[0].environment}; the other has none."]
    caption += [*sentences, "For looking, never tested."]
    return Plot(f"curve-{number}", figure, " ".join(caption), series.title)
