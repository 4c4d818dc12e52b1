"""How steady the steps were: by environment, and packed on a node against alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from experiments.comparisons import ExperimentComparison
from experiments.design import Scale
from experiments.models import Measurement, Run
from experiments.statistics.step_spread import (
    Packed,
    Ratio,
    RunSpread,
    Steady,
    packed,
    steadiness,
)

MEAN, SD, TAIL = "step_time", "step_time_sd", "tail_ratio"
Place = tuple[str, str]
"""A workload's name and a scale."""


@dataclass(frozen=True)
class SteadyGroup:
    """One workload at one scale."""

    workload: str
    scale: str
    environments: list[Steady]

    @property
    def title(self) -> str:
        return f"{self.workload} · {self.scale}"

    @property
    def means(self) -> list[float]:
        return [one.mean for one in self.environments]

    @property
    def sds(self) -> list[float]:
        return [one.sd for one in self.environments]


@dataclass(frozen=True)
class PackedGroup:
    """One workload alone and packed, on the same GPUs for each instance."""

    workload: str
    alone: str
    together: str
    """The scales."""
    environments: list[Packed]

    @property
    def title(self) -> str:
        return f"{self.workload} · {self.together} against {self.alone}"


@dataclass(frozen=True)
class Steadiness:
    """Empty where no run has reported the spread of its steps, or nothing may be judged yet."""

    groups: list[SteadyGroup] = field(default_factory=list)
    packed: list[PackedGroup] = field(default_factory=list)

    @property
    def has_tails(self) -> bool:
        """Whether any run had steps enough for a 99th percentile."""
        return any(one.tail for group in self.groups for one in group.environments)


def steadiness_of(comparison: ExperimentComparison) -> Steadiness:
    """Compare the spread inside runs that the last planned look has judged; two queries at most."""
    judged = list(comparison.stage.judgements)
    if not judged:
        return Steadiness()
    runs = _runs(comparison, judged[-1].repeats or comparison.experiment.repeats)
    names, is_paired = comparison.environments, comparison.paired
    groups = [
        SteadyGroup(*place, steadiness(spreads, environments=names, paired=is_paired))
        for place, spreads in runs.items()
    ]
    return Steadiness(groups, list(_packed(runs, names)))


def _runs(comparison: ExperimentComparison, repeats: int) -> dict[Place, list[RunSpread]]:
    """Return each group's runs in the order of the plan, workloads and scales sorted."""
    rows = Measurement.objects.filter(
        run__experiment=comparison.experiment,
        run__state=Run.State.SUCCEEDED,
        run__repeat__lte=repeats,
        value__gt=0,
    )
    spreads: dict[int, dict[str, float]] = {}
    for run, metric, value in rows.filter(metric__in=(SD, TAIL)).values_list(
        "run_id", "metric", "value"
    ):
        spreads.setdefault(run, {})[metric] = value
    if not any(SD in spread for spread in spreads.values()):
        return {}
    found: dict[Place, list[RunSpread]] = {}
    means = rows.filter(metric=MEAN).order_by(
        "run__workload__name", "run__scale", "run__job__block", "run__position"
    )
    for run, workload, scale, uid, block, environment, node, mean in means.values_list(
        "run_id",
        "run__workload__name",
        "run__scale",
        "run__uid",
        "run__job__block",
        "run__environment__name",
        "run__node",
        "value",
    ):
        spread = spreads.get(run, {})
        if SD in spread:
            one = RunSpread(
                uid, str(block + 1), environment, mean, spread[SD], spread.get(TAIL), node
            )
            found.setdefault((workload, scale), []).append(one)
    return found


def _packed(
    runs: Mapping[Place, Sequence[RunSpread]], environments: Sequence[str]
) -> Iterator[PackedGroup]:
    for (workload, together), many in runs.items():
        scale = _parsed(together)
        alone = alone_of(scale) if scale else None
        if not scale or not alone or (workload, alone) not in runs:
            continue
        found = packed(
            runs[workload, alone],
            many,
            environments=environments,
            instances=scale.instances_per_node,
        )
        if found:
            yield PackedGroup(workload, alone, together, found)


def alone_of(scale: Scale) -> str | None:
    """Return where one instance runs alone with as many GPUs as each has when packed.

    None where nothing is packed, or the GPUs are not shared out evenly.
    """
    instances = scale.instances_per_node
    if instances == 1 or scale.gpus_per_node % instances:
        return None
    gpus = scale.gpus_per_node // instances
    return str(replace(scale, gpus_per_node=gpus, instances_per_node=1))


def _parsed(text: str) -> Scale | None:
    try:
        return Scale.parse(text)
    except ValueError:  # a scale of an import, say
        return None


def steadiness_rows(comparison: ExperimentComparison) -> list[dict[str, Any]]:
    """Return one flat row a ratio, for CSV and JSON: estimates, so without verdict or p."""
    found = steadiness_of(comparison)
    return [
        {**comparison.about, **row} for row in (*_steady_rows(comparison, found), *_rows(found))
    ]


def _steady_rows(comparison: ExperimentComparison, found: Steadiness) -> Iterator[dict[str, Any]]:
    for group in found.groups:
        for one in group.environments:
            values = {MEAN: one.mean, SD: one.sd, TAIL: one.tail}
            ratios = {MEAN: one.mean_ratio, SD: one.sd_ratio, TAIL: one.tail_ratio}
            for metric, value in values.items():
                if value is not None:
                    yield {
                        "workload": group.workload,
                        "scale": group.scale,
                        "metric": metric,
                        "baseline": comparison.baseline,
                        "environment": one.environment,
                        "n_environment": one.runs,
                        "steadiness": value,
                        **_columns(ratios[metric]),
                    }


def _rows(found: Steadiness) -> Iterator[dict[str, Any]]:
    for group in found.packed:
        for one in group.environments:
            ratios = {MEAN: one.mean_ratio, SD: one.sd_ratio, TAIL: one.tail_ratio}
            for metric, ratio in ratios.items():
                if ratio is not None:
                    yield {
                        "workload": group.workload,
                        "scale": group.together,
                        "against_scale": group.alone,
                        "metric": metric,
                        "baseline": one.environment,
                        "environment": one.environment,
                        "n_baseline": one.runs_alone,
                        "n_environment": one.runs_packed,
                        **_columns(ratio),
                        "sentence": one.sentence,
                    }


def _columns(ratio: Ratio | None) -> dict[str, Any]:
    if ratio is None:
        return {"ratio": None, "ci95_low": None, "ci95_high": None}
    low, high = ratio.ci95 or (None, None)
    return {"ratio": ratio.value, "ci95_low": low, "ci95_high": high, "detail": ratio.flaw}
