"""The metrics that a recurring experiment has charts of: those that decide, and others on request.

Each chart makes the limits of all others wider, so others are charted only where somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.comparisons import Group
from experiments.comparisons.compared_runs import choose_primary_metric
from experiments.comparisons.experiment_comparison import ExperimentComparison
from experiments.comparisons.experiment_groups import compare_by_metrics
from experiments.models import Experiment
from experiments.planning.decisive_metrics import list_further
from runners.workloads import KNOWN_WORKLOADS
from runners.workloads.run_metrics import OF_JOB

MOST_REQUESTED = 5
"""Metrics beside those that decide: a page of more charts finds nothing any more."""


def list_chartable(source: Experiment) -> list[str]:
    """Return the names of metrics that can be charted on request, in the order of workloads.

    Without those that decide, and those that are the same for all runs of a job.
    """
    workloads = list(source.workloads.all())
    decisive = {choose_primary_metric(source, workload).name for workload in workloads}
    decisive |= {further.name for further in list_further(source)}
    if source.is_paired:
        decisive |= OF_JOB
    return [
        name
        for name in dict.fromkeys(
            metric.name
            for row in workloads
            for metric in KNOWN_WORKLOADS[row.kind].list_all_metrics(row.parameters)
        )
        if name not in decisive
    ]


def list_charted_groups(
    comparison: ExperimentComparison, experiment: Experiment, requested: Sequence[str]
) -> Iterator[tuple[int, bool, Group]]:
    """Yield each group to be charted with the rank of its metric, and whether it was asked for.

    A requested metric that no run has measured has no group: it would be a chart without values.
    """
    for rank, groups in enumerate(comparison.by_metric):
        for group in groups:
            yield rank, False, group
    count = len(comparison.by_metric)
    by_metric = compare_by_metrics(experiment, requested) if requested else []
    for rank, groups in enumerate(by_metric, start=count):
        for group in groups:
            if group.samples:
                yield rank, True, group
