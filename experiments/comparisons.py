"""Comparisons: computed from the runs each time they are looked at, never stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from experiments import snapshots
from experiments.models import Environment, Experiment, Measurement, Run, Workload
from experiments.statistics import Pair, Sample, compare, holm
from runners.workloads import WORKLOADS, Metric


@dataclass(frozen=True)
class Group:
    """One workload at one scale: all its runs, and each environment against the baseline.

    Samples and pairs name environments by their names, which are unique on a cluster.
    """

    workload: Workload
    scale: str
    metric: Metric
    samples: list[Sample]
    pairs: list[Pair]
    problem: str = ""
    """Why nothing can be compared, in words."""


@dataclass(frozen=True)
class Comparison:
    """What an experiment's runs say so far."""

    experiment: Experiment
    environments: list[Environment]
    """Baseline first."""
    groups: list[Group]
    states: Mapping[str, int]
    """How many runs are in which state."""

    @property
    def pairs(self) -> list[Pair]:
        return [pair for group in self.groups for pair in group.pairs]

    @property
    def planned(self) -> int:
        return sum(self.states.values())

    @property
    def ended(self) -> int:
        return sum(self.states.get(state, 0) for state in Run.FINAL)


def compare_experiment(experiment: Experiment) -> Comparison:
    """Compare every environment with the baseline: runs that succeeded, one value each."""
    runs = list(
        experiment.runs.select_related("job", "snapshot", "environment")
        .defer("spec", "output_tail", "command", "job__script", "snapshot__content")
        .order_by("job__block", "position")
    )
    environments = _baseline_first(experiment)
    groups = [
        _group(experiment, workload, scale, environments, runs)
        for workload in experiment.workloads.order_by("name")
        for scale in experiment.scales
    ]
    states = Counter(run.state for run in runs)
    return Comparison(experiment, environments, _adjusted(groups), states)


def primary_metric(experiment: Experiment, workload: Workload) -> Metric:
    """Return the metric that decides: the experiment's, else the workload's own."""
    kind = WORKLOADS[workload.kind]
    name = experiment.primary_metric or kind.primary
    return next(metric for metric in kind.metrics if metric.name == name)


def comparison_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return one flat row a pair, with every number of the page, for CSV and JSON."""
    experiment = comparison.experiment
    return [
        {
            "experiment": experiment.pk,
            "question": experiment.question,
            "plan_hash": experiment.plan_hash,
            "workload": group.workload.name,
            "scale": group.scale,
            "metric": group.metric.name,
            **_flat(asdict(pair)),
            "cost": pair.cost,
            **_flat({"cost_ci95": pair.cost_ci95, "cost_ci90": pair.cost_ci90}),
            "sentence": pair.sentence,
        }
        for group in comparison.groups
        for pair in group.pairs
    ]


def run_rows(experiment: Experiment) -> Iterator[dict[str, Any]]:
    """Yield one row a run with its measurements: enough to recompute every comparison."""
    runs = experiment.runs.select_related("job", "workload", "environment", "snapshot")
    for run in runs.prefetch_related("measurements").order_by("job__block", "position"):
        numbers = {
            f"{number.metric} ({number.unit})": number.value for number in run.measurements.all()
        }
        yield {
            "run": run.uid,
            "job": run.job.uid,
            "block": run.job.number,
            "position": run.position,
            "repeat": run.repeat,
            "workload": run.workload.name,
            "environment": run.environment.name,
            "scale": run.scale,
            "state": run.state,
            "reason": run.reason,
            "message": run.message,
            "exit_code": run.exit_code,
            "node": run.node,
            "began_at": run.began_at.isoformat() if run.began_at else None,
            "ended_at": run.ended_at.isoformat() if run.ended_at else None,
            "attempt": run.job.attempt,
            "scheduler_id": run.job.scheduler_id,
            "snapshot": run.snapshot.content_hash if run.snapshot else None,
            **numbers,
        }


def _group(
    experiment: Experiment,
    workload: Workload,
    scale: str,
    environments: list[Environment],
    runs: list[Run],
) -> Group:
    metric = primary_metric(experiment, workload)
    values = _values(experiment, workload, metric)
    counted = [
        run
        for run in runs
        if run.workload_id == workload.pk and run.scale == scale and run.pk in values
    ]
    samples = [_sample(run, values[run.pk]) for run in counted]
    try:
        pairs = compare(
            samples,
            baseline=experiment.baseline.name,
            environments=[environment.name for environment in environments[1:]],
            margin=experiment.margin,
            better=metric.better,
            paired=experiment.is_paired,
            unit=metric.unit,
            differences=_differences(experiment.baseline, counted),
        )
    except ValueError as error:  # a metric chosen to decide may be zero or negative
        return Group(workload, scale, metric, samples, [], str(error))
    return Group(workload, scale, metric, samples, pairs)


def _baseline_first(experiment: Experiment) -> list[Environment]:
    rows = experiment.environments.select_related("runtime", "staged_image__image").order_by("name")
    return sorted(rows, key=lambda row: row.pk != experiment.baseline_id)


def _values(experiment: Experiment, workload: Workload, metric: Metric) -> dict[int, float]:
    """Return run pk -> value; failed, cancelled and excluded runs have no say."""
    rows = Measurement.objects.filter(
        run__experiment=experiment,
        run__workload=workload,
        run__state=Run.State.SUCCEEDED,
        metric=metric.name,
    )
    return dict(rows.values_list("run_id", "value"))


def _sample(run: Run, value: float) -> Sample:
    return Sample(
        run=run.uid,
        block=str(run.job.number),
        environment=run.environment.name,
        value=value,
        node=run.node,
        started=run.began_at.timestamp() if run.began_at else None,
    )


def _differences(baseline: Environment, runs: list[Run]) -> dict[str, list[str]]:
    """Return what else differed from the baseline, by environment, as the snapshots tell it."""
    facts: dict[str, list[Mapping[str, str]]] = {}
    for run in runs:
        if run.snapshot:
            facts.setdefault(run.environment.name, []).append(run.snapshot.facts)
    ours = facts.pop(baseline.name, [])
    return {name: snapshots.differences(ours, theirs) for name, theirs in facts.items()}


def _adjusted(groups: list[Group]) -> list[Group]:
    """Correct for the number of questions asked: Holm over all pairs of the experiment."""
    adjusted = iter(holm([pair for group in groups for pair in group.pairs]))
    return [replace(group, pairs=[next(adjusted) for _ in group.pairs]) for group in groups]


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Spread intervals over two columns; join lists of words."""
    row: dict[str, Any] = {}
    for name, value in values.items():
        if name.rpartition("_")[2] in {"ci95", "ci90"}:
            row[f"{name}_low"], row[f"{name}_high"] = value or (None, None)
        elif name in {"claim", "evidence"}:
            continue
        elif isinstance(value, tuple):
            row[name] = "; ".join(map(str, value))
        else:
            row[name] = value
    return row
