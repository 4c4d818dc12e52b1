"""Scaling: the groups of a comparison that are one workload on more and more GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from experiments.comparisons import Comparison, ExperimentComparison, Group
from experiments.comparisons.judged_samples import list_judged_samples
from experiments.design import Scale
from experiments.models import Run
from experiments.statistics import Measured, Sample
from experiments.statistics.scaling import (
    Batch,
    Gain,
    Level,
    compute_gains,
    make_level_from_moments,
    make_level_from_runs,
)
from runners.workloads import KNOWN_WORKLOADS
from runners.workloads.run_metrics import NO_SPEEDS

GPUS = re.compile(r"(n|no|num|number)?[ _.]*(of)?[ _.]*gpus?", re.IGNORECASE)
"""Names of a table's column that counts GPUs."""
FRAMEWORKS = re.compile(r"package (tensorflow|torch|jax|mxnet|numpy)([-_].+)?")
Rest = tuple[tuple[str, str], ...]
"""What all scales of one workload share: its name, or a table's other labels."""


@dataclass(frozen=True)
class Scaling:
    """One workload at several scales, in the environments that were measured there."""

    name: str
    metric: Measured
    batch: Batch
    levels: list[Level]
    gains: list[Gain]

    @property
    def kind(self) -> str:
        """Return "strong" or "weak"; empty where it is unknown whose batch it is."""
        return {"total": "strong", "per GPU": "weak"}.get(self.batch, "")


def compute_scalings(comparison: Comparison, *, batch: Batch = "") -> list[Scaling]:
    """Return every workload that has an environment at two numbers of GPUs or more.

    `batch` is used where the numbers do not say whose it is, as in tables. Labels other than the
    GPUs have to agree: another framework or data set is another workload. Two queries for an
    experiment, none for a table.
    """
    several = _group_by_workload(comparison)
    if not several or not _is_time(comparison):
        return []
    batches: dict[str, Batch] = {}
    software_by_arm: Mapping[tuple[str, str, str], str] = {}
    if isinstance(comparison, ExperimentComparison):
        batches = _batches(comparison)
        software_by_arm = _made_with(comparison)
    return [
        scaling
        for rest, groups in several.items()
        for scaling in _scaling(
            comparison,
            rest,
            groups,
            batches.get(dict(rest).get("workload", "")) or batch,
            software_by_arm,
        )
    ]


def has_scalings(comparison: Comparison) -> bool:
    """Return whether any workload was compared at two numbers of GPUs or more; no query."""
    return bool(_group_by_workload(comparison)) and _is_time(comparison)


def _group_by_workload(comparison: Comparison) -> dict[Rest, list[tuple[int, str, Group]]]:
    """Return the GPUs, scale and group of each configuration of workloads with several scales."""
    groups_by_workload: dict[Rest, list[tuple[int, str, Group]]] = {}
    for group in comparison.groups:
        gpus_scale_and_rest = _scale_of_group(group)
        has_speed = group.metric.name not in NO_SPEEDS
        if gpus_scale_and_rest and group.metric.better and has_speed:
            gpus, scale, rest = gpus_scale_and_rest
            groups_by_workload.setdefault(rest, []).append((gpus, scale, group))
    return {
        rest: groups
        for rest, groups in groups_by_workload.items()
        if len({g for g, *_ in groups}) > 1
    }


def _is_time(comparison: Comparison) -> bool:
    """Return whether results may be shown: those of an experiment wait for a planned analysis."""
    if not isinstance(comparison, ExperimentComparison):
        return True
    return any(True for _ in comparison.stage.judgements)


def _scaling(
    comparison: Comparison,
    rest: Rest,
    groups: Sequence[tuple[int, str, Group]],
    batch: Batch,
    software_by_arm: Mapping[tuple[str, str, str], str],
) -> Iterator[Scaling]:
    workload = dict(rest).get("workload", "")
    levels = [
        level
        for gpus, scale, group in groups
        for level in _levels(
            gpus,
            scale,
            group,
            _list_judged_by_environment(comparison, group),
            software_by_arm,
            workload,
        )
    ]
    metric = groups[0][2].metric
    speed_ups = compute_gains(levels, better=metric.better or "lower", batch=batch)
    if speed_ups:
        labels = (f"{name} {value}" if value.isdigit() else value for name, value in rest if value)
        yield Scaling(", ".join(labels), metric, batch, levels, speed_ups)


def _scale_of_group(group: Group) -> tuple[int, str, Rest] | None:
    """Return a group's number of GPUs, its scale, and its other labels; None without GPUs."""
    rest = tuple((name, value) for name, value in group.configuration.items() if name != "scale")
    if "scale" in group.configuration:
        try:
            scale = Scale.parse(group.configuration["scale"])
        except ValueError:
            return None
        if scale.is_packed:
            rest += (("instances per node", str(scale.instances_per_node)),)
        if scale.launcher:
            # A launcher around each process costs time that must not be put down to the GPUs.
            rest += (("launcher", scale.launcher),)
        return (scale.gpus, group.configuration["scale"], rest) if scale.gpus else None
    for name, value in rest:
        if GPUS.fullmatch(name.strip()) and re.fullmatch(r"[1-9]\d*(\.0+)?", value.strip()):
            others = tuple(pair for pair in rest if pair[0] != name)
            return int(float(value)), "", others
    return None


def _list_judged_by_environment(comparison: Comparison, group: Group) -> dict[str, list[Sample]]:
    """Return the samples of each environment that an analysis has judged; all if none is planned.

    Later ones would tell of the next analysis before its time.
    """
    judged: dict[str, dict[str, Sample]] = {}
    for sample in group.samples if not group.pairs else ():
        judged.setdefault(sample.environment, {})[sample.run] = sample
    for pair in group.pairs:
        for sample in list_judged_samples(comparison, group, pair):
            if sample.environment in (pair.baseline, pair.environment):
                judged.setdefault(sample.environment, {})[sample.run] = sample
    return {name: list(samples.values()) for name, samples in judged.items()}


def _levels(
    gpus: int,
    scale: str,
    group: Group,
    judged: Mapping[str, Sequence[Sample]],
    software_by_arm: Mapping[tuple[str, str, str], str],
    workload: str,
) -> Iterator[Level]:
    """Yield the level of each environment: from its runs, else from the means of its pairs."""
    values = {name: [sample.value for sample in samples] for name, samples in judged.items()}
    for name, runs in values.items():
        if all(value > 0 for value in runs):
            made_with = software_by_arm.get((workload, scale, name), "")
            yield make_level_from_runs(name, gpus, runs, made_with=made_with, scale=scale)
    if values:
        return
    means: dict[str, Level] = {}
    for pair in group.pairs:
        for name, mean, sd, n in (
            (pair.baseline, pair.baseline_mean, pair.baseline_sd, pair.n_baseline),
            (pair.environment, pair.environment_mean, pair.environment_sd, pair.n_environment),
        ):
            if mean and mean > 0:
                means.setdefault(name, make_level_from_moments(name, gpus, mean, sd, n))
    yield from means.values()


def _batches(comparison: ExperimentComparison) -> dict[str, Batch]:
    rows = comparison.experiment.workloads.all()
    return {row.name: KNOWN_WORKLOADS[row.kind].choose_batch(row.parameters) for row in rows}


def _made_with(comparison: ExperimentComparison) -> dict[tuple[str, str, str], str]:
    """Return the CPU and frameworks of each workload, scale and environment, from snapshots."""
    rows = (
        comparison.experiment.runs.filter(state=Run.State.SUCCEEDED, snapshot__isnull=False)
        .order_by()
        .values_list("workload__name", "scale", "environment__name", "snapshot__facts")
        .distinct()
    )
    facts: dict[tuple[str, str, str], dict[str, set[str]]] = {}
    for workload, scale, environment, snapshot_facts in rows:
        relevant_facts = facts.setdefault((workload, scale, environment), {})
        for name, value in snapshot_facts.items():
            if name == "CPU" or FRAMEWORKS.fullmatch(name):
                relevant_facts.setdefault(name.removeprefix("package "), set()).add(value)
    return {
        arm: "; ".join(
            "/".join(sorted(values)) if name == "CPU" else f"{name} {'/'.join(sorted(values))}"
            for name, values in sorted(relevant_facts.items())
        )
        for arm, relevant_facts in facts.items()
    }
