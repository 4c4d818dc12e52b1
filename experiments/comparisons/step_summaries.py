"""What is kept about the steps of each run: found once, when they are stored.

Of times per step, how the run starts; of losses, how it ends and a hash of them all.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from experiments.models import Series
from experiments.statistics import change_points
from experiments.statistics.change_points import Shape, SteadyState
from runners.workloads import WORKLOADS

TIMES = {
    metric.name for kind in WORKLOADS.values() for metric in kind.metrics if metric.unit == "s"
}
"""A series of such a name, in seconds, holds times per step: only these have a start-up, and those
that a workload of the user's own declares."""
FOUND = ("shape", "block_steps", "warm_up", "steady_from", "trend", "trend_p")
COLUMNS = (*FOUND, "settled_mean", "tail_means", "first_value", "last_value", "digest")
LOSS = "loss"


def note(series: Series) -> Series:
    """Write what the steps say onto the row, and return it for the caller to save. Anything but
    times per step and losses stays as it is.

    ValueError names the step that is not finite.
    """
    if series.metric == LOSS and series.values:
        series.first_value, series.last_value = series.values[0], series.values[-1]
        series.digest = digest(series.values)
        return series
    if series.unit != "s" or not (series.metric in TIMES or _is_declared(series)):
        return series
    found = change_points.find(series.values, series.steps)
    for name, value in asdict(found).items():
        setattr(series, name, str(value) if name == "shape" else value)
    tails = change_points.tails(series.values, series.steps)
    series.tail_means = list(tails.values())
    series.settled_mean = None if found.warm_up is None else tails[found.warm_up]
    return series


def _is_declared(series: Series) -> bool:
    """Whether the run's own workload names such a metric: users name those of their programs."""
    workload = series.run.spec.get("workload") if series.run_id else None
    if not workload or workload["kind"] not in WORKLOADS:
        return False
    declared = WORKLOADS[workload["kind"]].metrics_of(workload["parameters"])
    return any(one.name == series.metric and one.unit == "s" for one in declared)


def note_all(rows: Iterable[Series]) -> int:
    """Look at stored series again and return how many were noted. Safe to repeat."""
    noted = 0
    for series in rows:
        note(series)
        if series.shape or series.digest:
            series.save(update_fields=COLUMNS)
            noted += 1
    return noted


def digest(values: Sequence[float]) -> str:
    """Return a sha256 that two series share when they are equal to the bit."""
    # On its way into an array of the database a zero loses its sign; so it does here.
    unsigned = [value + 0.0 for value in values]
    return hashlib.sha256(struct.pack(f">{len(values)}d", *unsigned)).hexdigest()


def found_in(series: Series) -> SteadyState | None:
    """Return what was found when the series was stored; None where nobody has looked."""
    if not series.shape:
        return None
    kept = {name: getattr(series, name) for name in FOUND}
    return SteadyState(**kept | {"shape": Shape(series.shape)})
