"""The control charts of a recurring experiment, from what was noted of its recurrences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from experiments.models import Environment, Recurrence, RecurringExperiment, Workload
from experiments.recurring.recurrence_points import RATIO
from experiments.statistics.control_charts import (
    ChartPoint,
    ControlChart,
    choose_alpha,
    judge_points,
)
from experiments.statistics.pooling import BIASED
from experiments.statistics.values import Verdict

NO_VALUE = "It has no value above 0."
NOT_ENDED = "Its runs have not ended, or its comparison is not computed yet."
MISSING = "Nothing of this configuration was compared in it."
FEW_RUNS = "Fewer than half of the planned runs were compared: it is not judged."
INTERIM = (
    "It was decided at an interim analysis, which favours large differences: it is not judged."
)
EXTENDED = "It was extended because its verdict was inconclusive: it is not judged."
NOT_JUDGED = (Verdict.NOT_ATTRIBUTABLE.value, *(stamp.value for stamp in BIASED))
"""Verdict and stamps of ratios that are another thing than the container's: shown, and neither
judged nor counted in limits, as they are not pooled either."""

OTHER_METHOD = "Another version of Tare computed it than the newest values: it is not judged."

Key = tuple[Any, ...]


@dataclass(frozen=True)
class History:
    """All recurrences with what was noted of them, and the charts made of that."""

    recurring: RecurringExperiment
    recurrences: list[Recurrence]
    charts: list[ControlChart]
    """In the order of configurations and their metrics, in each the ratios before the levels."""

    @property
    def alpha(self) -> float:
        """Return the level of each chart."""
        return choose_alpha(len(self.charts))

    @cached_property
    def configurations(self) -> list[str]:
        return list(dict.fromkeys(chart.configuration for chart in self.charts))

    @cached_property
    def metrics(self) -> list[str]:
        """Return the names of all metrics that are charted, the decisive ones first."""
        ranked = sorted(self.charts, key=lambda chart: chart.rank)
        return list(dict.fromkeys(chart.metric for chart in ranked))

    @cached_property
    def not_charted(self) -> list[str]:
        """Return the requested metrics without a chart: nothing has measured or noted them yet."""
        return [name for name in self.recurring.charted_metrics if name not in self.metrics]

    @cached_property
    def of_another_method(self) -> list[int]:
        """Return the recurrences with values of another version of Tare than the newest have."""
        method = find_method(self.recurrences)
        return [row.number for row in self.recurrences if row.points and row.method != method]

    @cached_property
    def outside(self) -> dict[int, list[str]]:
        """Return which charts each recurrence left, by its number."""
        left: dict[int, list[str]] = {}
        for chart in self.charts:
            for number in chart.outside:
                left.setdefault(number, []).append(f"{chart.configuration}: {chart.name}")
        return left


def read_history(recurring: RecurringExperiment) -> History:
    """Return the charts of a recurring experiment; three statements, however many recurrences."""
    rows = list(
        recurring.recurrences.select_related("experiment")
        .defer("experiment__plan", "experiment__notes")
        .order_by("number")
    )
    values: dict[Key, dict[int, dict[str, Any]]] = {}
    for row in rows:
        for point in row.points or []:
            # What is no longer asked for makes no limits wider.
            if not point.get("requested") or point.get("metric") in recurring.charted_metrics:
                values.setdefault(_make_key(point), {})[row.number] = point
    names = _read_names(values)
    ranks = {key: min(int(p.get("rank") or 0) for p in values[key].values()) for key in values}
    keys = sorted(values, key=lambda key: _order(key, ranks[key], names))
    alpha = choose_alpha(len(keys))
    repeats = recurring.source.repeats
    charts = [
        _make_chart(
            key, values[key], rows, names, alpha, recurring.limits_from, repeats, ranks[key]
        )
        for key in keys
    ]
    return History(recurring, rows, charts)


def find_method(rows: Sequence[Recurrence]) -> str:
    """Return the hash of the code that computed the newest values; "" where there are none."""
    return next((row.method for row in reversed(rows) if row.points), "")


def _make_key(point: Mapping[str, Any]) -> Key:
    names = ("workload", "scale", "metric", "kind", "environment", "baseline", "unit")
    return tuple(point.get(name) for name in names)


def _read_names(keys: Mapping[Key, Any]) -> dict[tuple[str, int], str]:
    """Return the names of workloads and environments as they are now, by kind and key."""
    workloads = Workload.objects.filter(pk__in={key[0] for key in keys})
    environments = Environment.objects.filter(
        pk__in={pk for key in keys for pk in key[4:6] if pk is not None}
    )
    return {("workload", pk): name for pk, name in workloads.values_list("pk", "name")} | {
        ("environment", pk): name for pk, name in environments.values_list("pk", "name")
    }


def _order(
    key: Key, rank: int, names: Mapping[tuple[str, int], str]
) -> tuple[str, str, int, str, str, str]:
    workload, scale, metric, kind, environment, *_ = key
    return (
        names.get(("workload", workload), ""),
        str(scale),
        rank,
        str(metric),
        "0" if kind == RATIO else "1",
        names.get(("environment", environment), ""),
    )


def _make_chart(
    key: Key,
    values: Mapping[int, Mapping[str, Any]],
    rows: Sequence[Recurrence],
    names: Mapping[tuple[str, int], str],
    alpha: float,
    first: int,
    repeats: int,
    rank: int,
) -> ControlChart:
    workload, scale, metric, _, environment, baseline, unit = key
    method = find_method(rows)
    return ControlChart(
        configuration=f"{names.get(('workload', workload), 'a deleted workload')}, {scale}",
        environment=names.get(("environment", environment), "a deleted environment"),
        baseline=names.get(("environment", baseline), "baseline") if baseline is not None else "",
        metric=str(metric),
        unit=str(unit or ""),
        points=judge_points(
            [_make_point(row, values.get(row.number), repeats, method) for row in rows],
            alpha,
            first=first,
        ),
        rank=rank,
        is_requested=any(point.get("requested") for point in values.values()),
    )


def _make_point(
    row: Recurrence, point: Mapping[str, Any] | None, repeats: int, method: str
) -> ChartPoint:
    if point is None:
        problem = row.problem or (NOT_ENDED if row.points is None else MISSING)
        return ChartPoint(row.number, None, problem)
    value = point.get("value")
    if value is None:
        return ChartPoint(row.number, None, NO_VALUE)
    return ChartPoint(
        row.number,
        float(value),
        OTHER_METHOD if row.method != method else _explain_why_not_judged(point, repeats),
        verdict=str(point.get("verdict") or ""),
        stamps=tuple(point.get("stamps") or ()),
    )


def _explain_why_not_judged(point: Mapping[str, Any], repeats: int) -> str:
    """Return why a value is shown, and neither judged nor counted in limits; "" if it is both."""
    if point.get("interim"):
        return INTERIM
    if point.get("extended"):
        return EXTENDED
    marks = {point.get("verdict"), *(point.get("stamps") or ())}
    if biased := [mark for mark in NOT_JUDGED if mark in marks]:
        return f"{', '.join(biased)}: it is not judged."
    return FEW_RUNS if 2 * int(point.get("runs") or 0) < repeats else ""
