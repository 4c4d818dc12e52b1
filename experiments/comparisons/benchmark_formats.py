"""The numbers of an experiment in the formats of two trackers of benchmarks.

Bencher's Benchmark Metric Format, and the JSON that pytest-benchmark stores and compares.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from experiments.comparisons.run_rows import list_run_rows
from experiments.models import Experiment, Measurement, Run

PYTEST_BENCHMARK_VERSION = "5.1.0"
"""The version whose form the file has."""
SECONDS = "s"
SMALLEST, LARGEST = 1e-100, 1e100
"""Of what is in the files: squares of these, and one divided by them, are numbers too."""
NO_TIMES = "This experiment has no metric in seconds, and pytest-benchmark knows no other unit."


@dataclass(frozen=True)
class Measured:
    """One metric of an environment in a configuration: a value of each run that succeeded."""

    workload: str
    scale: str
    environment: str
    metric: str
    unit: str
    values: list[float]

    @property
    def configuration(self) -> str:
        return f"{self.workload} {self.scale}"


def describe_for_bencher(experiment: Experiment) -> dict[str, dict[str, dict[str, float]]]:
    """Return benchmarks with their measures: mean, lowest and highest value of the runs."""
    content: dict[str, dict[str, dict[str, float]]] = {}
    for group in _collect(experiment):
        benchmark = content.setdefault(f"{group.configuration} {group.environment}", {})
        benchmark[f"{group.metric} ({group.unit})"] = {
            "value": statistics.fmean(group.values),
            "lower_value": min(group.values),
            "upper_value": max(group.values),
        }
    return content


def describe_for_pytest_benchmark(experiment: Experiment) -> dict[str, Any]:
    """Return a benchmark for each metric in seconds, in which each run is a round.

    ValueError: there is no such metric.
    """
    groups = [group for group in _collect(experiment) if group.unit == SECONDS]
    if not groups:
        raise ValueError(NO_TIMES)
    began_at = experiment.launched_at or experiment.imported_at or timezone.now()
    return {
        "machine_info": {"node": "Tare", "cpu": {}},
        "commit_info": {"id": experiment.plan_hash, "project": "Tare", "dirty": False},
        "benchmarks": [_describe_benchmark(group) for group in groups],
        "datetime": began_at.isoformat(),
        "version": PYTEST_BENCHMARK_VERSION,
    }


def _collect(experiment: Experiment) -> list[Measured]:
    """Return the groups in the order of the plan, as the runs reported them."""
    numbers = Measurement.objects.filter(run__experiment=experiment).order_by("metric", "unit")
    metrics = list(numbers.values_list("metric", "unit").distinct())
    groups: dict[tuple[str, str, str, str, str], list[float]] = {}
    for row in list_run_rows(experiment):
        if row["state"] != Run.State.SUCCEEDED:
            continue
        place = (row["workload"], row["scale"], row["environment"])
        for metric, unit in metrics:
            value = row.get(f"{metric} ({unit})")
            if value is not None and is_usable(value):
                groups.setdefault((*place, metric, unit), []).append(value)
    return [Measured(*key, values) for key, values in groups.items()]


def is_usable(value: float) -> bool:
    """Return whether statistics of such values are numbers: neither NaN nor beyond all measure."""
    return value == 0 or SMALLEST <= abs(value) <= LARGEST


def _describe_benchmark(group: Measured) -> dict[str, Any]:
    label = f"{group.configuration} {group.metric}"
    return {
        "group": label,
        "name": group.environment,
        "fullname": f"{label}::{group.environment}",
        "params": None,
        "param": None,
        "extra_info": {},
        "options": {
            "disable_gc": False,
            "timer": "Tare",
            "min_rounds": len(group.values),
            "max_time": 0,
            "min_time": 0,
            "warmup": False,
        },
        "stats": dict(_compute_stats(group.values)),
    }


def _compute_stats(values: list[float]) -> Iterator[tuple[str, Any]]:
    """Yield the statistics by pytest-benchmark's names; `data` has all values."""
    ordered, mean = sorted(values), statistics.fmean(values)
    sd = statistics.stdev(values) if len(values) > 1 else 0.0
    quarters = statistics.quantiles(values, n=4) if len(values) > 1 else ordered * 3
    low, median, high = quarters[0], statistics.median(values), quarters[2]
    spread = high - low
    inner = [value for value in ordered if low - 1.5 * spread <= value <= high + 1.5 * spread]
    outer = len(values) - len(inner)
    beyond = sum(abs(value - mean) > sd for value in values)
    yield from {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": mean,
        "stddev": sd,
        "rounds": len(values),
        "median": median,
        "iqr": spread,
        "q1": low,
        "q3": high,
        "iqr_outliers": outer,
        "stddev_outliers": beyond,
        "outliers": f"{beyond};{outer}",
        "ld15iqr": inner[0],
        "hd15iqr": inner[-1],
        "ops": 1 / mean if mean else 0.0,
        "total": math.fsum(values),
        "data": values,
        "iterations": 1,
    }.items()
