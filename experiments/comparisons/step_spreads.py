"""Comparisons of how much steps vary: by environment, and packed on a node against alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from experiments.comparisons import ExperimentComparison
from experiments.comparisons.group_order import sort_by_groups
from experiments.design import Scale
from experiments.models import Measurement, Run
from experiments.statistics.step_spread import (
    Packed,
    Ratio,
    RunSpread,
    Steady,
    compare_packed,
    compare_spreads,
)
from runners.workloads.run_metrics import RUN_TIME

MEAN, SD, TAIL = "step_time", "step_time_sd", "tail_ratio"
TIME = RUN_TIME.name
GroupKey = tuple[str, str]
"""A workload's name and a scale."""


@dataclass(frozen=True)
class SteadyGroup:
    """The spread of steps of one workload at one scale, by environment."""

    workload: str
    scale: str
    environments: list[Steady]

    @property
    def title(self) -> str:
        return f"{self.workload} · {self.scale}"

    @property
    def means(self) -> list[float]:
        return [environment.mean for environment in self.environments]

    @property
    def sds(self) -> list[float]:
        return [environment.sd for environment in self.environments]


@dataclass(frozen=True)
class PackedGroup:
    """One workload alone and packed, each instance with as many GPUs in both."""

    workload: str
    alone: str
    """The scale at which one instance runs alone."""
    together: str
    """The scale at which several instances share a node."""
    environments: list[Packed]

    @property
    def title(self) -> str:
        return f"{self.workload} · {self.together} against {self.alone}"


@dataclass(frozen=True)
class Steadiness:
    """The spread of steps in all groups of an experiment.

    It is empty where no run reported the spread of its steps, or nothing may be judged yet.
    """

    groups: list[SteadyGroup] = field(default_factory=list)
    packed: list[PackedGroup] = field(default_factory=list)

    @property
    def has_tails(self) -> bool:
        """Return whether any run had enough steps for a 99th percentile."""
        return any(environment.tail for group in self.groups for environment in group.environments)

    @property
    def columns(self) -> int:
        """Return how many columns the table has: tails have two of their own."""
        return 8 if self.has_tails else 6


def has_spreads(comparison: ExperimentComparison) -> bool:
    """Return whether any run that counts reported the spread of its steps."""
    return any(True for _ in comparison.stage.judgements) and SD in comparison.measured


def compare_steadiness(comparison: ExperimentComparison) -> Steadiness:
    """Compare the spread inside the runs of the last analysis that was due; at most two queries."""
    judged = list(comparison.stage.judgements)
    if not judged:
        return Steadiness()
    runs = _read_runs(comparison, judged[-1].repeats or comparison.experiment.all_repeats)
    names, is_paired = comparison.environments, comparison.paired
    groups = [
        SteadyGroup(*place, compare_spreads(spreads, environments=names, paired=is_paired))
        for place, spreads in runs.items()
    ]
    return Steadiness(groups, list(_packed_groups(runs, names)))


def _read_runs(comparison: ExperimentComparison, repeats: int) -> dict[GroupKey, list[RunSpread]]:
    """Return the runs of each group in the order of the plan; groups as the comparison has them."""
    rows = Measurement.objects.filter(
        run__experiment=comparison.experiment,
        run__state=Run.State.SUCCEEDED,
        run__repeat__lte=repeats,
        value__gt=0,
    )
    spreads: dict[int, dict[str, float]] = {}
    for run_id, metric, value in rows.filter(metric__in=(SD, TAIL, TIME)).values_list(
        "run_id", "metric", "value"
    ):
        spreads.setdefault(run_id, {})[metric] = value
    if not any(SD in spread_metrics for spread_metrics in spreads.values()):
        return {}
    runs_by_group: dict[GroupKey, list[RunSpread]] = {}
    means = rows.filter(metric=MEAN).order_by("run__job__block", "run__position")
    for run_id, workload, scale, uid, block, environment, node, mean in means.values_list(
        "run_id",
        "run__workload__name",
        "run__scale",
        "run__uid",
        "run__job__block",
        "run__environment__name",
        "run__node",
        "value",
    ):
        spread_metrics = spreads.get(run_id, {})
        if SD in spread_metrics:
            run_spread = RunSpread(
                uid,
                str(block + 1),
                environment,
                mean,
                spread_metrics[SD],
                spread_metrics.get(TAIL),
                node,
                spread_metrics.get(TIME),
            )
            runs_by_group.setdefault((workload, scale), []).append(run_spread)
    return dict(sort_by_groups(comparison, runs_by_group))


def _packed_groups(
    runs: Mapping[GroupKey, Sequence[RunSpread]], environments: Sequence[str]
) -> Iterator[PackedGroup]:
    for (workload, packed_scale), packed_runs in runs.items():
        scale = _parse_scale(packed_scale)
        alone_scale = find_scale_alone(scale) if scale else None
        if not scale or not alone_scale or (workload, alone_scale) not in runs:
            continue
        packed_environments = compare_packed(
            runs[workload, alone_scale],
            packed_runs,
            environments=environments,
            instances=scale.instances_per_node,
        )
        if packed_environments:
            yield PackedGroup(workload, alone_scale, packed_scale, packed_environments)


def find_scale_alone(scale: Scale) -> str | None:
    """Return the scale at which one instance runs alone on as many GPUs as each has when packed.

    None where nothing is packed, or the GPUs are not shared evenly.
    """
    instances = scale.instances_per_node
    if instances == 1 or scale.gpus_per_node % instances:
        return None
    gpus = scale.gpus_per_node // instances
    return str(replace(scale, gpus_per_node=gpus, instances_per_node=1))


def _parse_scale(text: str) -> Scale | None:
    try:
        return Scale.parse(text)
    except ValueError:  # imported logs may have scales of other shapes
        return None


def list_steadiness_rows(comparison: ExperimentComparison) -> list[dict[str, Any]]:
    """Return one flat row for each ratio, for CSV and JSON: estimates without verdict or p."""
    step_spreads = compare_steadiness(comparison)
    return [
        {**comparison.about, **row}
        for row in (*_environment_rows(comparison, step_spreads), *_packed_rows(step_spreads))
    ]


def _environment_rows(
    comparison: ExperimentComparison, step_spreads: Steadiness
) -> Iterator[dict[str, Any]]:
    for group in step_spreads.groups:
        for spread in group.environments:
            values = {MEAN: spread.mean, SD: spread.sd, TAIL: spread.tail}
            ratios = {MEAN: spread.mean_ratio, SD: spread.sd_ratio, TAIL: spread.tail_ratio}
            for metric, value in values.items():
                if value is not None:
                    yield {
                        "workload": group.workload,
                        "scale": group.scale,
                        "metric": metric,
                        "baseline": comparison.baseline,
                        "environment": spread.environment,
                        "n_environment": spread.runs,
                        "steadiness": value,
                        **_columns(ratios[metric]),
                    }


def _packed_rows(step_spreads: Steadiness) -> Iterator[dict[str, Any]]:
    for group in step_spreads.packed:
        for packed_spread in group.environments:
            ratios = {
                MEAN: packed_spread.mean_ratio,
                SD: packed_spread.sd_ratio,
                TAIL: packed_spread.tail_ratio,
                TIME: packed_spread.time_ratio,
            }
            for metric, ratio in ratios.items():
                if ratio is not None:
                    yield {
                        "workload": group.workload,
                        "scale": group.together,
                        "against_scale": group.alone,
                        "metric": metric,
                        "baseline": packed_spread.environment,
                        "environment": packed_spread.environment,
                        "n_baseline": packed_spread.runs_alone,
                        "n_environment": packed_spread.runs_packed,
                        **_columns(ratio),
                        "sentence": packed_spread.sentence,
                    }


def _columns(ratio: Ratio | None) -> dict[str, Any]:
    if ratio is None:
        return {"ratio": None, "ci95_low": None, "ci95_high": None}
    low, high = ratio.ci95 or (None, None)
    return {"ratio": ratio.value, "ci95_low": low, "ci95_high": high, "detail": ratio.flaw}
