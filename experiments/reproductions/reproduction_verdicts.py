"""The verdict of a reproduction: the comparisons of both experiments, line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from experiments.comparisons import ExperimentComparison, Group
from experiments.models import Experiment
from experiments.reproductions.frozen_plans import FrozenPlan, UnreadablePlan, read_plan
from experiments.statistics import numbers
from experiments.statistics.margins import Margin
from experiments.statistics.reproductions import (
    Outcome,
    Overall,
    Reproduced,
    judge_overall,
    judge_pairs,
)

MAY_DIFFER = ("repeats", "output_mib")
"""Settings of a draft: with more blocks, or more of the output kept, it is the same study."""
WAITS = "The verdict comes when all planned blocks of the reproduction have finished."
NO_FIRST = "The first study has no verdicts: its runs have not ended, or none has succeeded."


@dataclass(frozen=True)
class Line:
    """One environment in one configuration and by one decisive metric, in both experiments."""

    configuration: str
    metric: str
    environment: str
    judged: Reproduced


@dataclass(frozen=True)
class ReproductionVerdict:
    """What a reproduction has shown, line by line and over all."""

    overall: Overall | None
    """None before its runs have ended: `waits` says for what it waits."""
    lines: list[Line]
    waits: str = ""
    names: tuple[tuple[str, str], ...] = ()
    """The environments of the plan, the baseline first: their names in both experiments."""
    differences: tuple[str, ...] = ()
    """What could not be the same, as it was listed before the launch."""


def judge_reproduction(
    first: ExperimentComparison, again: ExperimentComparison
) -> ReproductionVerdict:
    """Return the verdict of a reproduction from the comparisons of both experiments.

    Margins are those of the first plan. Both plans have to be loaded with their experiments.
    """
    record = again.experiment.reproduction or {}
    differences = tuple(map(str, record.get("differences", ())))
    try:
        plans = read_plan(first.experiment.plan), read_plan(again.experiment.plan)
    except UnreadablePlan as problem:
        return ReproductionVerdict(None, [], str(problem), differences=differences)
    names = _name_environments(plans[0], first.experiment, again.experiment, record)
    for comparison, waits in ((again, WAITS), (first, NO_FIRST)):
        if not (comparison.has_numbers and any(group.pairs for group in comparison.groups)):
            return ReproductionVerdict(None, [], waits, names, differences)
    lines = list(_list_lines(plans[0], first, again, names, record))
    if changes := list_plan_changes(*plans, record):
        why = f"It is another plan than that of the first study, by its {numbers.listed(changes)}."
        lines = [_withhold(line, why) for line in lines]
        return ReproductionVerdict(
            Overall(Outcome.INCONCLUSIVE, why), lines, "", names, differences
        )
    overall = judge_overall([line.judged for line in lines])
    return ReproductionVerdict(overall, lines, "", names, differences)


def list_plan_changes(first: FrozenPlan, again: FrozenPlan, record: Mapping[str, Any]) -> list[str]:
    """Return what makes the second plan another one: a draft can be changed before its launch."""
    changes = [
        name.replace("_", " ")
        for name in sorted(first.settings.keys() | again.settings.keys())
        if name not in MAY_DIFFER and first.settings.get(name) != again.settings.get(name)
    ]
    workloads = {spec.key: spec for spec in again.workloads}
    environments = {spec.key: spec for spec in again.environments}
    own_workloads = record.get("workloads") or {}
    own_environments = record.get("environments") or {}
    for spec in first.workloads:
        other = workloads.pop(own_workloads.get(spec.key, ""), None)
        if other is None or other.study != spec.study:
            changes.append(f"workload {spec.name}")
    for place in first.environments:
        standing = environments.pop(own_environments.get(place.key, ""), None)
        if standing is None or (standing.runtime, standing.image_digest) != (
            place.runtime,
            place.image_digest,
        ):
            changes.append(f"environment {place.label}")
    changes += [f"workload {spec.name}" for spec in workloads.values()]
    changes += [f"environment {spec.label}" for spec in environments.values()]
    if again.baseline != own_environments.get(first.baseline):
        changes.append("baseline")
    return list(dict.fromkeys(changes))


def _withhold(line: Line, why: str) -> Line:
    return replace(line, judged=replace(line.judged, outcome=Outcome.INCONCLUSIVE, reason=why))


def _list_lines(
    plan: FrozenPlan,
    first: ExperimentComparison,
    again: ExperimentComparison,
    names: Sequence[tuple[str, str]],
    record: Mapping[str, Any],
) -> Iterator[Line]:
    workloads = _name_workloads(plan, first.experiment, again.experiment, record)
    margins = _list_margins(plan.settings)
    for number, margin in enumerate(margins):
        groups = [
            {_identify(group): group for group in _take_metric(comparison, number)}
            for comparison in (first, again)
        ]
        for name_first, name_again in workloads:
            for scale in plan.settings["scales"]:
                both = (
                    groups[0].get((name_first, scale)),
                    groups[1].get((name_again, scale)),
                )
                known = both[0] or both[1]
                for environments in names[1:]:
                    pairs = [
                        _find_pair(group, name)
                        for group, name in zip(both, environments, strict=True)
                    ]
                    yield Line(
                        known.name if known else f"{name_first}, {scale}",
                        known.metric.label if known else "",
                        environments[0],
                        judge_pairs(pairs[0], pairs[1], margin),
                    )


def _take_metric(comparison: ExperimentComparison, number: int) -> list[Group]:
    by_metric = comparison.by_metric
    return by_metric[number] if number < len(by_metric) else []


def _identify(group: Group) -> tuple[str, str]:
    return group.configuration.get("workload", ""), group.configuration.get("scale", "")


def _find_pair(group: Group | None, environment: str) -> Any:
    pairs = group.pairs if group else []
    return next((pair for pair in pairs if pair.environment == environment), None)


def _list_margins(settings: Mapping[str, Any]) -> list[Margin]:
    """Return the margin of each decisive metric of a plan, the primary one's first."""
    goal = settings.get("goal", "equivalence")
    return [
        Margin.make(goal, entry["margin"], entry.get("margin_faster"))
        for entry in (settings, *settings.get("further_metrics", ()))
    ]


def _name_environments(
    plan: FrozenPlan, first: Experiment, again: Experiment, record: Mapping[str, Any]
) -> tuple[tuple[str, str], ...]:
    """Return the name of each environment in both experiments, the baseline first."""
    labels = {spec.key: spec.label for spec in plan.environments}
    before = _name_rows(first.environments.all(), labels, first.get_environment_key)
    now = _name_rows(again.environments.all(), {}, again.get_environment_key)
    own = record.get("environments") or {}
    keys = sorted(labels, key=lambda key: key != plan.baseline)
    return tuple((before[key], now.get(own.get(key, ""), "")) for key in keys)


def _name_workloads(
    plan: FrozenPlan, first: Experiment, again: Experiment, record: Mapping[str, Any]
) -> list[tuple[str, str]]:
    labels = {spec.key: spec.name for spec in plan.workloads}
    before = _name_rows(first.workloads.all(), labels, first.get_workload_key)
    now = _name_rows(again.workloads.all(), {}, again.get_workload_key)
    own = record.get("workloads") or {}
    return [(before[key], now.get(own.get(key, ""), "")) for key in labels]


def _name_rows(
    rows: Iterable[Any], labels: Mapping[str, str], find_key: Callable[[int], str]
) -> dict[str, str]:
    """Return the name that each row of a plan has now, by its key there; else that of the plan."""
    return {**labels, **{find_key(row.pk): row.name for row in rows}}
