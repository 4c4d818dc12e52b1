"""Which groups of a comparison are one workload on more and more GPUs, and what they gain."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from experiments.comparisons import Comparison, ExperimentComparison, Group
from experiments.design import Scale
from experiments.models import Run
from experiments.statistics import Measured
from experiments.statistics.scaling import Batch, Gain, Level, from_moments, from_runs, gains
from runners.workloads import KNOWN_WORKLOADS

GPUS = re.compile(r"(n|no|num|number)?[ _.]*(of)?[ _.]*gpus?", re.IGNORECASE)
"""Names of a table's column that counts GPUs."""
FRAMEWORKS = re.compile(r"package (tensorflow|torch|jax|mxnet|numpy)([-_].+)?")
Rest = tuple[tuple[str, str], ...]
"""What is alike at all scales of one workload: its name, or a table's other labels."""


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
        """What experts call it; empty where nobody said whose batch it is."""
        return {"total": "strong", "per GPU": "weak"}.get(self.batch, "")


def scalings(comparison: Comparison, *, batch: Batch = "") -> list[Scaling]:
    """Return every workload that has an environment at two numbers of GPUs or more.

    `batch` is for numbers that do not say it, such as tables. Labels other than the GPUs have to
    agree: another framework or data set is another workload. Two queries for an experiment, none
    for a table.
    """
    found: dict[Rest, list[tuple[int, str, Group]]] = {}
    for group in comparison.groups:
        placed = _placed(group)
        if placed and group.metric.better:
            gpus, scale, rest = placed
            found.setdefault(rest, []).append((gpus, scale, group))
    several = {rest: groups for rest, groups in found.items() if len({g for g, *_ in groups}) > 1}
    if not several or not _is_time(comparison):
        return []
    batches: dict[str, Batch] = {}
    made: Mapping[tuple[str, str, str], str] = {}
    if isinstance(comparison, ExperimentComparison):
        batches = _batches(comparison)
        made = _made_with(comparison)
    return [
        scaling
        for rest, groups in several.items()
        for scaling in _scaling(
            rest, groups, batches.get(dict(rest).get("workload", "")) or batch, made
        )
    ]


def _is_time(comparison: Comparison) -> bool:
    """Whether anything may be judged: an experiment keeps its intervals until a planned look."""
    if not isinstance(comparison, ExperimentComparison):
        return True
    return any(True for _ in comparison.stage.judgements)


def _scaling(
    rest: Rest,
    groups: Sequence[tuple[int, str, Group]],
    batch: Batch,
    made: Mapping[tuple[str, str, str], str],
) -> Iterator[Scaling]:
    workload = dict(rest).get("workload", "")
    levels = [
        level
        for gpus, scale, group in groups
        for level in _levels(gpus, scale, group, made, workload)
    ]
    metric = groups[0][2].metric
    found = gains(levels, better=metric.better or "lower", batch=batch)
    if found:
        words = (f"{name} {value}" if value.isdigit() else value for name, value in rest if value)
        yield Scaling(", ".join(words), metric, batch, levels, found)


def _placed(group: Group) -> tuple[int, str, Rest] | None:
    """Return a group's GPUs, its scale in words, and its other labels; None without GPUs."""
    rest = tuple((name, value) for name, value in group.cell.items() if name != "scale")
    if "scale" in group.cell:
        try:
            scale = Scale.parse(group.cell["scale"])
        except ValueError:
            return None
        if scale.is_packed:
            rest += (("instances per node", str(scale.instances_per_node)),)
        if scale.launcher:
            # Another program around each process: its cost must not pass for that of the GPUs.
            rest += (("launcher", scale.launcher),)
        return (scale.gpus, group.cell["scale"], rest) if scale.gpus else None
    for name, value in rest:
        if GPUS.fullmatch(name.strip()) and re.fullmatch(r"[1-9]\d*(\.0+)?", value.strip()):
            others = tuple(pair for pair in rest if pair[0] != name)
            return int(float(value)), "", others
    return None


def _levels(
    gpus: int,
    scale: str,
    group: Group,
    made: Mapping[tuple[str, str, str], str],
    workload: str,
) -> Iterator[Level]:
    """Yield what each environment did: from its runs, else from the means of its pairs."""
    values: dict[str, list[float]] = {}
    for sample in group.samples:
        values.setdefault(sample.environment, []).append(sample.value)
    for name, runs in values.items():
        if all(value > 0 for value in runs):
            made_with = made.get((workload, scale, name), "")
            yield from_runs(name, gpus, runs, made_with=made_with, scale=scale)
    if values:
        return
    means: dict[str, Level] = {}
    for pair in group.pairs:
        for name, mean, sd, n in (
            (pair.baseline, pair.baseline_mean, pair.baseline_sd, pair.n_baseline),
            (pair.environment, pair.environment_mean, pair.environment_sd, pair.n_environment),
        ):
            if mean and mean > 0:
                means.setdefault(name, from_moments(name, gpus, mean, sd, n))
    yield from means.values()


def _batches(comparison: ExperimentComparison) -> dict[str, Batch]:
    rows = comparison.experiment.workloads.all()
    return {row.name: KNOWN_WORKLOADS[row.kind].batch_of(row.parameters) for row in rows}


def _made_with(comparison: ExperimentComparison) -> dict[tuple[str, str, str], str]:
    """Return machine and framework of each cell, in words, as its snapshots tell them."""
    rows = (
        comparison.experiment.runs.filter(state=Run.State.SUCCEEDED, snapshot__isnull=False)
        .order_by()
        .values_list("workload__name", "scale", "environment__name", "snapshot__facts")
        .distinct()
    )
    facts: dict[tuple[str, str, str], dict[str, set[str]]] = {}
    for workload, scale, environment, known in rows:
        kept = facts.setdefault((workload, scale, environment), {})
        for name, value in known.items():
            if name == "CPU" or FRAMEWORKS.fullmatch(name):
                kept.setdefault(name.removeprefix("package "), set()).add(value)
    return {
        place: "; ".join(
            "/".join(sorted(values)) if name == "CPU" else f"{name} {'/'.join(sorted(values))}"
            for name, values in sorted(kept.items())
        )
        for place, kept in facts.items()
    }
