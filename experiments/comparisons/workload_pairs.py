"""Comparisons between workloads of an experiment: those that differ in one parameter alone.

So a workload is a factor like the environment: synthetic images against a data set, a page cache
that is cold or warm, the values of a parameter that is varied.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any

from experiments.comparisons.comparison import Group
from experiments.comparisons.experiment_comparison import ExperimentComparison
from experiments.models import Workload
from experiments.statistics import Measured, Sample
from experiments.statistics.between_workloads import BetweenWorkloads, compare_workloads
from runners.workloads import KNOWN_WORKLOADS

DATA = ("data", "data_directory", "data set")
"""Parameters that say together what is read: where several differ, the first of them is named."""


@dataclass(frozen=True)
class WorkloadPair:
    """Two workloads at one scale that differ in one parameter, in each environment."""

    factor: str
    """The parameter in which they differ, by its name."""
    scale: str
    reference: str
    """The name of the workload with which the other is compared."""
    other: str
    metric: Measured
    rows: list[BetweenWorkloads]

    @property
    def title(self) -> str:
        return f"{self.other} against {self.reference} · {self.scale}"

    @cached_property
    def means(self) -> list[float]:
        """Return all means, so that pages show them with digits that fit together."""
        return [mean for row in self.rows for mean in (row.mean_reference, row.mean_other)]


def may_compare_workloads(comparison: ExperimentComparison) -> bool:
    """Return whether any two workloads of one kind were measured at one scale; no query."""
    places = [(group.configuration["scale"], group.metric.name) for group in comparison.groups]
    return len(set(places)) < len(places) and any(True for _ in comparison.stage.judgements)


def compare_between_workloads(comparison: ExperimentComparison) -> list[WorkloadPair]:
    """Return each pair of workloads that differ in one parameter, by scale; two queries at most.

    The runs are those of the last analysis that was due. Of several values each is compared with
    the first one: the first choice of a parameter, or its least value.
    """
    judged = list(comparison.stage.judgements)
    if not judged or not may_compare_workloads(comparison):
        return []
    repeats = judged[-1].repeats or comparison.experiment.all_repeats
    rows = comparison.experiment.workloads.select_related("data_set")
    groups = {
        (group.configuration["workload"], group.configuration["scale"]): group
        for group in comparison.groups
    }
    scales = dict.fromkeys(scale for _, scale in groups)
    return [
        pair
        for factor, reference, other in list_workload_pairs(
            sorted(rows, key=attrgetter("natural_key"))
        )
        for scale in scales
        if (pair := _compare(comparison, groups, factor, reference, other, scale, repeats))
    ]


def _compare(
    comparison: ExperimentComparison,
    groups: Mapping[tuple[str, str], Group],
    factor: str,
    reference: Workload,
    other: Workload,
    scale: str,
    repeats: int,
) -> WorkloadPair | None:
    """Return the pair at one scale; None where the two were not measured by one metric there."""
    first, second = (groups.get((row.name, scale)) for row in (reference, other))
    if first is None or second is None or first.metric != second.metric:
        return None
    before, after = (_list_samples(group, repeats) for group in (first, second))
    compared = compare_workloads(
        before, after, environments=comparison.environments, paired=comparison.paired
    )
    if not compared:
        return None
    return WorkloadPair(factor, scale, reference.name, other.name, first.metric, compared)


def _list_samples(group: Group, repeats: int) -> list[Sample]:
    return [sample for sample in group.samples if sample.repeat <= repeats and sample.value > 0]


def list_workload_pairs(rows: Sequence[Workload]) -> Iterator[tuple[str, Workload, Workload]]:
    """Yield each two workloads of a kind that differ in one parameter, and that parameter.

    Those that share all else are sorted by it, and each is paired with the first.
    """
    for kind in dict.fromkeys(row.kind for row in rows):
        settings = {row: _read_settings(row) for row in rows if row.kind == kind}
        names = dict.fromkeys(name for values in settings.values() for name in values)
        for name in (name for name in names if name not in DATA[1:]):
            yield from _pair_by(name, kind, settings)
        yield from _pair_by(DATA[1], kind, settings)
        yield from _pair_by(DATA[2], kind, settings)


def _pair_by(
    name: str, kind: str, settings: Mapping[Workload, Mapping[str, Any]]
) -> Iterator[tuple[str, Workload, Workload]]:
    """Yield the pairs of workloads that differ in this parameter and in no other."""
    also = DATA[DATA.index(name) :] if name in DATA else (name,)

    def describe_rest(row: Workload) -> str:
        rest = {key: value for key, value in settings[row].items() if key not in also}
        return json.dumps(rest, sort_keys=True, default=str)

    rows = sorted(settings, key=describe_rest)
    for _, members in groupby(rows, describe_rest):
        by_value: dict[str, Workload] = {}
        for row in sorted(members, key=lambda row: _rank(kind, name, settings[row].get(name))):
            by_value.setdefault(json.dumps(settings[row].get(name), default=str), row)
        reference, *others = by_value.values()
        yield from ((name, reference, other) for other in others)


def _read_settings(row: Workload) -> dict[str, Any]:
    """Return the parameters of a workload, with the defaults and the name of its data set."""
    known = KNOWN_WORKLOADS.get(row.kind)
    defaults = {each.name: each.default for each in known.parameters} if known else {}
    return {**defaults, **row.parameters, DATA[2]: row.data_set.name if row.data_set else ""}


def _rank(kind: str, name: str, value: Any) -> tuple[int, float, str]:
    """Return where a value stands among others: as in the list of choices, by number, by name."""
    known = KNOWN_WORKLOADS.get(kind)
    for parameter in known.parameters if known else ():
        if parameter.name == name and value in (parameter.choices or ()):
            return 0, list(parameter.choices).index(value), ""
    if isinstance(value, int | float):
        return 0, float(value), ""
    return 1, 0.0, str(value)


def list_between_rows(comparison: ExperimentComparison) -> list[dict[str, Any]]:
    """Return one flat row for each environment of each pair: estimates without verdict or p."""
    return [
        {
            **comparison.about,
            "workload": pair.other,
            "against_workload": pair.reference,
            "parameter": pair.factor,
            "scale": pair.scale,
            "metric": pair.metric.name,
            "unit": pair.metric.unit,
            "baseline": comparison.baseline,
            "environment": row.environment,
            "n_baseline": row.runs_reference,
            "n_environment": row.runs_other,
            "mean_against": row.mean_reference,
            "mean": row.mean_other,
            **_list_columns("between_", row.ratio),
            **_list_columns("cost_change_", row.cost_change),
        }
        for pair in compare_between_workloads(comparison)
        for row in pair.rows
    ]


def _list_columns(start: str, ratio: Any) -> dict[str, Any]:
    low, high = (ratio and ratio.ci95) or (None, None)
    return {
        f"{start}ratio": ratio and ratio.value,
        f"{start}ci95_low": low,
        f"{start}ci95_high": high,
    }
