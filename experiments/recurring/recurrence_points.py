"""What the charts show of one recurrence, noted once a worker has its comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import F, Q, QuerySet

from experiments.comparisons import Group
from experiments.comparisons.comparison_keys import identify_method
from experiments.comparisons.experiment_comparison import ExperimentComparison
from experiments.comparisons.latest import read_all_kept
from experiments.models import Experiment, KeptComparison, Recurrence
from experiments.recurring.charted_metrics import list_charted_groups
from experiments.recurring.recurrence_facts import list_changes
from experiments.statistics import Pair, Sample
from experiments.statistics.values import Verdict

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
    comparison later, such as an exclusion, has it noted anew. "renewed" where another version of
    Tare had noted it, or other metrics are to be charted.
    """
    rows = Recurrence.objects.filter(experiment=experiment_pk)
    if not rows.exists():
        return ""
    experiments = Experiment.objects.select_related("baseline").without_plan()
    experiment = experiments.get(pk=experiment_pk)
    if Experiment.objects.alive().filter(pk=experiment_pk).exists():
        return "alive"
    method = identify_method()
    other = rows.filter(points__isnull=False).exclude(charted=F("recurring__charted_metrics"))
    is_renewed = rows.exclude(method__in=("", method)).exists() or other.exists()
    outcome = "renewed" if is_renewed else "noted"
    if experiment.cancelled_at and not experiment.stopped_at_look:
        _note_nothing(rows, CANCELLED, method)
        return outcome
    if not Experiment.objects.with_results().filter(pk=experiment_pk).exists():
        _note_nothing(rows, NO_RUN, method)
        return outcome
    ((comparison, latest),) = read_all_kept([experiment])
    if comparison is None or latest.is_behind:
        return "not computed yet"
    for row in rows.select_related("recurring"):
        requested = row.recurring.charted_metrics
        rows.filter(pk=row.pk).update(
            points=describe_points(comparison, experiment, requested),
            charted=requested,
            problem="",
            changes=list_changes(row),
            method=method,
        )
    return outcome


def _note_nothing(rows: QuerySet[Recurrence], problem: str, method: str) -> None:
    """Note why there are no values."""
    for row in rows.select_related("recurring"):
        rows.filter(pk=row.pk).update(
            points=[], charted=row.recurring.charted_metrics, problem=problem, method=method
        )


def list_unnoted() -> list[int]:
    """Return the experiments whose runs have ended, and whose points nobody has noted yet.

    After them some of those that another version of Tare has noted, or with other metrics.
    """
    waiting = Experiment.objects.filter(recurrences__isnull=False, recurrences__points__isnull=True)
    alive = Experiment.objects.alive().values("pk")
    keys = waiting.exclude(pk__in=alive).order_by("pk").values_list("pk", flat=True)
    outdated = list_outdated().order_by("experiment").values_list("experiment", flat=True)
    return [*keys.distinct()[:MOST_AT_ONCE], *outdated.distinct()[:MOST_RENEWED]]


def list_outdated() -> QuerySet[Recurrence]:
    """Return the recurrences whose points another version of Tare has computed, or other metrics.

    Without those whose comparison this one has failed to compute: they stay as they are.
    """
    failed = KeptComparison.objects.exclude(failed_at=None).values("pk")
    is_current = Q(method=identify_method(), charted=F("recurring__charted_metrics"))
    rows = Recurrence.objects.filter(points__isnull=False).exclude(is_current)
    return rows.exclude(experiment__in=failed)


def describe_points(
    comparison: ExperimentComparison, experiment: Experiment, requested: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return each value that a chart shows, as JSON: levels of all environments, and ratios.

    Of each decisive metric and of those that were asked for. Workloads and environments are named
    by their keys, which stay when names change. A ratio has its verdict and stamps, for what is not
    judged over time (`chart_history`).
    """
    workloads = {row.name: row.pk for row in experiment.workloads.all()}
    environments = {row.name: row.pk for row in experiment.environments.all()}
    points = []
    for rank, is_requested, group in list_charted_groups(comparison, experiment, requested):
        place: dict[str, Any] = {
            "workload": workloads.get(group.configuration.get("workload", "")),
            "scale": group.configuration.get("scale", ""),
            "metric": group.metric.name,
            "rank": rank,
            "requested": is_requested,
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
                "verdict": _choose_verdict(pair, is_requested=place["requested"]),
                "stamps": [stamp.value for stamp in pair.stamps],
            }


def _choose_verdict(pair: Pair, *, is_requested: bool) -> str:
    """Return a ratio's verdict; of a metric that decides nothing only that it is another thing."""
    is_told = not is_requested or pair.verdict is Verdict.NOT_ATTRIBUTABLE
    return pair.verdict.value if is_told else ""


def _compute_level(samples: list[Sample]) -> float | None:
    """Return the geometric mean of runs; None where there is none, or one has no logarithm."""
    values = [_take_positive(sample.value) for sample in samples]
    if not values or None in values:
        return None
    return _take_positive(math.exp(math.fsum(math.log(v) for v in values if v) / len(values)))


def _take_positive(value: float | None) -> float | None:
    """Return a value that has a logarithm; None for any other."""
    return value if value is not None and math.isfinite(value) and value > 0 else None
