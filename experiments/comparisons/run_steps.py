"""What is stored of the steps inside runs: how uncertain they leave its value, what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.comparisons.comparison import Group
from experiments.comparisons.experiment_comparison import ExperimentComparison
from experiments.comparisons.warm_ups import Start, WarmUps
from experiments.models import Series
from experiments.statistics.repetitions import estimate_variance_of_mean
from runners.workloads import KNOWN_WORKLOADS


@dataclass(frozen=True)
class RunSteps:
    """What is known of the steps of one run that count."""

    variance: float
    """What they give the log of the run's value."""
    count: int
    seconds: float
    """Of one of them."""
    rest: float | None
    """Seconds of the run beside them; None where its times are not known."""


def read_run_steps(
    comparison: ExperimentComparison, groups: Sequence[Group]
) -> dict[str, RunSteps]:
    """Return what is known of the steps of each run of these groups, by its uid; one query.

    Of the times per step alone on which the metric of a group with a warm-up rests: their
    summaries say enough, so no step is read. Runs with too few steps are missing.
    """
    by_place = {
        (group.configuration["workload"], group.configuration["scale"]): group
        for group in groups
        if group.warm_ups
    }
    if not by_place:
        return {}
    known: dict[str, RunSteps] = {}
    rows = Series.objects.filter(
        run__experiment=comparison.experiment,
        run__workload__name__in={workload for workload, _ in by_place},
        run__scale__in={scale for _, scale in by_place},
        steps=None,
        unit="s",
    ).exclude(shape="")
    for uid, workload, kind, scale, metric, tails, size, steps, began, ended in rows.values_list(
        "run__uid",
        "run__workload__name",
        "run__workload__kind",
        "run__scale",
        "metric",
        "tail_means",
        "block_steps",
        "values__len",
        "run__began_at",
        "run__ended_at",
    ):
        group = by_place.get((workload, scale))
        if group is None or group.warm_ups is None or uid not in group.warm_ups.starts:
            continue
        if metric != KNOWN_WORKLOADS[kind].find_base_series(group.metric.name):
            continue
        start = group.warm_ups.starts[uid]
        cut = _find_cut(group.warm_ups, start)
        variance = estimate_variance_of_mean(tails, size or start.block_steps, steps, cut)
        if variance is None:
            continue
        whole = (ended - began).total_seconds() if began and ended else None
        rest = None if whole is None else max(whole - start.measured * (steps - cut), 0.0)
        known[uid] = RunSteps(variance, steps - cut, start.measured, rest)
    return known


def _find_cut(warm_ups: WarmUps, start: Start) -> int:
    """Return the steps of a run that its value leaves out."""
    if not warm_ups.decides:
        return warm_ups.fixed_warm_up
    if warm_ups.common_cut is not None:
        return warm_ups.common_cut
    return warm_ups.fixed_warm_up if start.warm_up is None else start.warm_up
