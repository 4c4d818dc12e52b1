"""What the charts show of one recurrence, noted once a worker has its comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet

from experiments.comparisons import Comparison, Group
from experiments.comparisons.comparison_keys import identify_method
from experiments.comparisons.latest import read_all_kept
from experiments.models import Experiment, KeptComparison, Recurrence
from experiments.recurring.recurrence_facts import list_changes
from experiments.statistics import Sample

LEVEL, RATIO = "level", "ratio"
NO_RUN = "No run of it has succeeded."
CANCELLED = "It was cancelled before all of its runs had ended."
MOST_AT_ONCE = 200
MOST_RENEWED = 20
"""Experiments that the clock has computed anew in one round after an upgrade: each takes seconds,
and pages and visits are not to wait for hundreds."""


def note_points(experiment_pk: int) -> str:
    """Note what the charts show of an experiment whose runs have ended; return what was done.

    Nothing where the experiment does not recur, lives, or has no comparison yet. What changes the
    comparison later, such as an exclusion, has it noted anew. "renewed" where only another version
    of Tare had noted it.
    """
    rows = Recurrence.objects.filter(experiment=experiment_pk)
    if not rows.exists():
        return ""
    experiments = Experiment.objects.select_related("baseline").without_plan()
    experiment = experiments.get(pk=experiment_pk)
    if Experiment.objects.alive().filter(pk=experiment_pk).exists():
        return "alive"
    method = identify_method()
    outcome = "renewed" if rows.exclude(method__in=("", method)).exists() else "noted"
    if experiment.cancelled_at and not experiment.stopped_at_look:
        rows.update(points=[], problem=CANCELLED, method=method)
        return outcome
    if not Experiment.objects.with_results().filter(pk=experiment_pk).exists():
        rows.update(points=[], problem=NO_RUN, method=method)
        return outcome
    ((comparison, latest),) = read_all_kept([experiment])
    if comparison is None or latest.is_behind:
        return "not computed yet"
    points = describe_points(comparison, experiment)
    for row in rows:
        changes = list_changes(row)
        rows.filter(pk=row.pk).update(points=points, problem="", changes=changes, method=method)
    return outcome


def list_unnoted() -> list[int]:
    """Return the experiments whose runs have ended, and whose points nobody has noted yet.

    After them some of those that another version of Tare has noted.
    """
    waiting = Experiment.objects.filter(recurrences__isnull=False, recurrences__points__isnull=True)
    alive = Experiment.objects.alive().values("pk")
    keys = waiting.exclude(pk__in=alive).order_by("pk").values_list("pk", flat=True)
    outdated = list_outdated().order_by("experiment").values_list("experiment", flat=True)
    return [*keys.distinct()[:MOST_AT_ONCE], *outdated.distinct()[:MOST_RENEWED]]


def list_outdated() -> QuerySet[Recurrence]:
    """Return the recurrences whose points another version of Tare has computed.

    Without those whose comparison this one has failed to compute: they stay as they are.
    """
    failed = KeptComparison.objects.exclude(failed_at=None).values("pk")
    rows = Recurrence.objects.filter(points__isnull=False).exclude(method=identify_method())
    return rows.exclude(experiment__in=failed)


def describe_points(comparison: Comparison, experiment: Experiment) -> list[dict[str, Any]]:
    """Return each value that a chart shows, as JSON: levels of all environments, and ratios.

    Workloads and environments are named by their keys, which stay when names change. A ratio has
    its verdict and stamps, for what is not judged over time (`chart_history`).
    """
    workloads = {row.name: row.pk for row in experiment.workloads.all()}
    environments = {row.name: row.pk for row in experiment.environments.all()}
    points = []
    for group in comparison.groups:
        place: dict[str, Any] = {
            "workload": workloads.get(group.configuration.get("workload", "")),
            "scale": group.configuration.get("scale", ""),
            "metric": group.metric.name,
            "interim": experiment.looks > 1,
            "extended": any(pair.extension for pair in group.pairs),
        }
        by_environment: dict[str, list[Sample]] = {}
        for sample in group.samples:
            by_environment.setdefault(sample.environment, []).append(sample)
        for name in comparison.environments:
            if name not in environments:
                continue
            own = by_environment.get(name, [])
            value = _compute_level(own)
            points.append(
                {**place, "kind": LEVEL, "environment": environments[name], "baseline": None}
                | {"unit": group.metric.unit, "value": value, "runs": len(own)}
            )
        points += _list_ratios(group, place, environments)
    return points


def _list_ratios(
    group: Group, place: dict[str, Any], environments: dict[str, int]
) -> Iterable[dict[str, Any]]:
    for pair in group.pairs:
        if pair.environment in environments and pair.baseline in environments:
            yield {
                **place,
                "kind": RATIO,
                "environment": environments[pair.environment],
                "baseline": environments[pair.baseline],
                "unit": "",
                "value": _take_positive(pair.ratio),
                "runs": min(pair.n_baseline, pair.n_environment) or pair.n_blocks,
                "verdict": pair.verdict.value,
                "stamps": [stamp.value for stamp in pair.stamps],
            }


def _compute_level(samples: list[Sample]) -> float | None:
    """Return the geometric mean of runs; None where there is none, or one has no logarithm."""
    values = [_take_positive(sample.value) for sample in samples]
    if not values or None in values:
        return None
    return _take_positive(math.exp(math.fsum(math.log(v) for v in values if v) / len(values)))


def _take_positive(value: float | None) -> float | None:
    """Return a value that has a logarithm; None for any other."""
    return value if value is not None and math.isfinite(value) and value > 0 else None
