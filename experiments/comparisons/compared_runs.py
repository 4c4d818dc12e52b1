"""What a comparison reads of runs: values after the warm-up, and facts of their snapshots."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.comparisons.exclusions import filter_counted
from experiments.comparisons.warm_ups import GroupKey, WarmUps
from experiments.models import Experiment, Measurement, Workload
from experiments.natural_order import make_natural_key
from experiments.statistics import Sample
from runners.workloads import KNOWN_WORKLOADS, Metric


def choose_primary_metric(experiment: Experiment, workload: Workload) -> Metric:
    """Return the metric that decides: the experiment's, else the workload's own."""
    kind = KNOWN_WORKLOADS[workload.kind]
    name = experiment.primary_metric or kind.choose_primary_metric(workload.parameters)
    return find_metric(workload, name)


def find_metric(workload: Workload, name: str) -> Metric:
    """Return a metric that runs of this workload report."""
    metric = find_reported_metric(workload, name)
    if metric is None:
        raise LookupError(f"{workload.kind} does not report {name}")
    return metric


def find_reported_metric(workload: Workload, name: str) -> Metric | None:
    """Return a metric by its name; None where runs of this workload do not report it."""
    metrics = KNOWN_WORKLOADS[workload.kind].list_all_metrics(workload.parameters)
    return next((metric for metric in metrics if metric.name == name), None)


def list_baseline_first(experiment: Experiment) -> list[str]:
    """Return the names of the environments in natural order, but that of the baseline first."""
    keys = dict(experiment.environments.order_by().values_list("name", "pk"))
    return sorted(
        keys, key=lambda name: (keys[name] != experiment.baseline_id, make_natural_key(name))
    )


def read_samples(
    experiment: Experiment,
    metrics: Mapping[int, Metric],
    starts: Mapping[GroupKey, WarmUps],
    *,
    with_excluded: bool = False,
) -> dict[GroupKey, list[Sample]]:
    """Return the values of each group in the order of the plan, after the warm-up that decides.

    Failed and cancelled runs do not count, nor those that a person has excluded unless asked for.
    """
    rows = Measurement.objects.filter(
        filter_counted(with_excluded=with_excluded),
        run__experiment=experiment,
        metric__in={metric.name for metric in metrics.values()},
    ).order_by("run__job__block", "run__position")
    samples_by_group: dict[GroupKey, list[Sample]] = {}
    for (
        workload,
        scale,
        metric,
        block,
        uid,
        environment,
        value,
        node,
        nodes,
        began,
        repeat,
        source,
    ) in rows.values_list(
        "run__workload_id",
        "run__scale",
        "metric",
        "run__job__block",
        "run__uid",
        "run__environment__name",
        "value",
        "run__node",
        "run__job__nodes",
        "run__began_at",
        "run__repeat",
        "source",
    ):
        if workload not in metrics or metric != metrics[workload].name:
            continue
        sample = Sample(
            run=uid,
            block=str(block + 1),
            environment=environment,
            value=value,
            node=node,
            nodes=tuple(nodes),
            started=began.timestamp() if began else None,
            repeat=repeat,
            source=source,
        )
        samples_by_group.setdefault((workload, scale), []).append(sample)
    return samples_by_group | {
        place: group.apply_to(samples_by_group[place])
        for place, group in starts.items()
        if place in samples_by_group
    }
