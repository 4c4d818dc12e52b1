"""The metrics that can decide, and the numbers of interim analyses, as choices of a form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from experiments.models import Workload
from experiments.statistics.interim_analyses import MOST_ANALYSES
from runners.workloads import WORKLOADS
from runners.workloads.results import Metric
from runners.workloads.run_metrics import RUN_METRICS

Choices = list[tuple[str, Any]]


def list_metric_choices(
    workloads: Iterable[Workload] = (), chosen: Iterable[Workload] = ()
) -> Choices:
    """Return the metrics of each kind, of users' programs among `workloads`, and of every run.

    What the `chosen` ones report comes first, in a group of its own.
    """
    metrics = {metric.name: metric for kind in WORKLOADS.values() for metric in kind.metrics}
    for name, metric in _reported_by(workloads).items():
        metrics.setdefault(name, metric)
    first = _reported_by(chosen)
    own = [_named(metric) for metric in first.values()]
    others = [_named(metric) for name, metric in metrics.items() if name not in first]
    usual: Choices = [("", "the workload's own")]
    of_runs = ("Of every run", [_named(row) for row in RUN_METRICS if row.name not in metrics])
    if not own:
        return [*usual, *others, of_runs]
    return [*usual, ("Of the workloads chosen", own), ("Of other workloads", others), of_runs]


def _reported_by(workloads: Iterable[Workload]) -> dict[str, Metric]:
    return {
        metric.name: metric
        for row in workloads
        for metric in WORKLOADS[row.kind].list_metrics(row.parameters)
    }


def _named(metric: Metric) -> tuple[str, str]:
    return metric.name, f"{metric.name}: {metric.label[:1].lower()}{metric.label[1:]}"


def list_analysis_choices() -> list[tuple[int, str]]:
    """Return the choices for the number of interim analyses."""
    return [(1, "one, at the end"), *((count, str(count)) for count in range(2, MOST_ANALYSES + 1))]
