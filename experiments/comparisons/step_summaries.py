"""Summaries of the steps of each run, computed once when the steps are stored.

For times per step: the warm-up and the steady state. For losses: both ends and a hash of all.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from experiments.models import Event, Series
from experiments.statistics import change_points
from experiments.statistics.change_points import Shape, SteadyState
from runners.workloads import WORKLOADS

TIMES = {
    metric.name for kind in WORKLOADS.values() for metric in kind.metrics if metric.unit == "s"
}
"""Series of these names, in seconds, hold times per step. Only these and those that a user's own
workload declares have a start-up."""
STEADY_STATE_COLUMNS = ("shape", "block_steps", "warm_up", "steady_from", "trend", "trend_p")
COLUMNS = (
    *STEADY_STATE_COLUMNS,
    "settled_mean",
    "tail_means",
    "first_value",
    "last_value",
    "digest",
)
LOSS = "loss"
SUMMARISED = "steps summarised again"
"""The event of steps that were summarised after they had been stored."""


def add_step_summary(series: Series) -> Series:
    """Add the summary of its steps to a series, and return it for the caller to save.

    Series other than times per step and losses stay as they are. ValueError names the step that
    is not finite.
    """
    if series.metric == LOSS and series.values:
        series.first_value, series.last_value = series.values[0], series.values[-1]
        series.digest = digest(series.values)
        return series
    if series.unit != "s" or not (series.metric in TIMES or _is_declared(series)):
        return series
    steady_state = change_points.find(series.values, series.steps)
    for name, value in asdict(steady_state).items():
        setattr(series, name, str(value) if name == "shape" else value)
    tails = change_points.compute_tail_means(series.values, series.steps)
    series.tail_means = list(tails.values())
    series.settled_mean = None if steady_state.warm_up is None else tails[steady_state.warm_up]
    return series


def _is_declared(series: Series) -> bool:
    """Return whether the run's workload declares this metric as a time: users name their own."""
    workload = series.run.spec.get("workload") if series.run_id else None
    if not workload or workload["kind"] not in WORKLOADS:
        return False
    declared = WORKLOADS[workload["kind"]].list_metrics(workload["parameters"])
    return any(metric.name == series.metric and metric.unit == "s" for metric in declared)


def add_step_summaries(rows: Iterable[Series]) -> int:
    """Summarise stored series again and return how many were saved. Safe to repeat.

    Each experiment gets an event: what was compared with the earlier ones is out of date.
    """
    count = 0
    experiments = set()
    for series in rows:
        add_step_summary(series)
        if series.shape or series.digest:
            series.save(update_fields=COLUMNS)
            count += 1
            experiments.add(series.run.experiment_id)
    Event.objects.bulk_create(Event(experiment_id=pk, what=SUMMARISED) for pk in experiments)
    return count


def digest(values: Sequence[float]) -> str:
    """Return a sha256 that two series share when they are bitwise equal."""
    # The database drops the sign of a negative zero in an array, so the hash must ignore it.
    unsigned = [value + 0.0 for value in values]
    return hashlib.sha256(struct.pack(f">{len(values)}d", *unsigned)).hexdigest()


def read_steady_state(series: Series) -> SteadyState | None:
    """Return the steady state detected when the series was stored; None where it has none."""
    if not series.shape:
        return None
    columns = {name: getattr(series, name) for name in STEADY_STATE_COLUMNS}
    return SteadyState(**columns | {"shape": Shape(series.shape)})
