"""The further decisive metrics of a plan: their margins, how they are frozen, what is refused."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.models import Experiment, Workload
from experiments.statistics.margins import Goal, Margin
from experiments.statistics.metric_rules import MOST_METRICS, MetricsRule
from runners.workloads import WORKLOADS
from runners.workloads.run_metrics import OF_JOB

SMALLEST, LARGEST = 0.0001, 1.0
"""Margins, as the form takes them."""
ONE_ANALYSIS = (
    "Several decisive metrics are judged once, when all planned runs have ended: each could reach "
    "its verdict at another interim analysis, and then all of them never at one. Plan one "
    "analysis, or one decisive metric."
)


@dataclass(frozen=True)
class FurtherMetric:
    """A decisive metric beside the main one, and the margin of its own."""

    name: str
    margin: Margin


def list_further(experiment: Experiment) -> list[FurtherMetric]:
    """Return the further decisive metrics of a plan in their order; most plans have none."""
    return [
        FurtherMetric(
            entry["metric"],
            Margin.make(experiment.goal, entry["margin"], entry.get("margin_faster")),
        )
        for entry in experiment.further_metrics
    ]


def describe_further(experiment: Experiment) -> str:
    """Return the further metrics with their margins, and how all are judged; "" without any."""
    further = [f"{row.name} within {row.margin.text}" for row in list_further(experiment)]
    return f"{', '.join(further)}; {experiment.get_metrics_rule_display()}" if further else ""


def get_rule(experiment: Experiment) -> MetricsRule:
    """Return how the plan judges its decisive metrics together."""
    return MetricsRule(experiment.metrics_rule)


def freeze_metrics(experiment: Experiment) -> dict[str, Any]:
    """Return what the frozen plan says of further metrics; nothing where there are none."""
    if not experiment.further_metrics:
        return {}
    return {
        "further_metrics": [dict(entry) for entry in experiment.further_metrics],
        "metrics_rule": experiment.metrics_rule,
    }


def number_metrics(experiment: Experiment) -> dict[int, Mapping[str, Any]]:
    """Return the further metrics by their places among the decisive ones, from 2 on."""
    return dict(enumerate(experiment.further_metrics, start=2))


def list_refusals(
    workloads: Sequence[Workload],
    primary_metric: str,
    further: Mapping[int, Mapping[str, Any]],
    *,
    goal: str,
    looks: int,
    paired: bool,
) -> Iterator[tuple[str, str]]:
    """Yield what stands against further metrics: the form's field, and a sentence."""
    if not further:
        return
    if len(further) >= MOST_METRICS:
        yield f"metric_{max(further)}", f"A plan has {MOST_METRICS} decisive metrics at most."
    if looks > 1:
        yield "looks", ONE_ANALYSIS
    seen: dict[str, int] = {}
    for place, entry in further.items():
        name = str(entry.get("metric") or "")
        if name in seen:
            yield (
                f"metric_{place}",
                f"{name} is decisive metric {seen[name]} already: name it once.",
            )
        elif name:
            seen[name] = place
            yield from (
                (f"metric_{place}", message)
                for message in _explain_metric(workloads, primary_metric, name, paired=paired)
            )
        else:
            yield f"metric_{place}", "Choose the metric that this margin is of."
        yield from _list_margin_refusals(place, entry, goal)


def _explain_metric(
    workloads: Sequence[Workload], primary_metric: str, name: str, *, paired: bool
) -> Iterator[str]:
    """Yield why a metric cannot be a further decisive one of these workloads."""
    if name == primary_metric:
        yield f"{name} is the primary metric: choose another one, or none."
        return
    for workload in workloads:
        kind = WORKLOADS[workload.kind]
        own = {metric.name for metric in kind.list_metrics(workload.parameters)}
        if paired and name in OF_JOB - own:
            yield (
                f"All environments of a block run in one job, so their {name} is the same: choose "
                "the independent design."
            )
            return
        reported = [metric.name for metric in kind.list_all_metrics(workload.parameters)]
        if name not in reported:
            yield f"{workload} does not report {name}. It reports {', '.join(reported)}."
        elif not primary_metric and kind.choose_primary_metric(workload.parameters) == name:
            yield f"{name} is the primary metric of {workload}: choose another one, or none."


def _list_margin_refusals(
    place: int, entry: Mapping[str, Any], goal: str
) -> Iterator[tuple[str, str]]:
    margin, faster = entry.get("margin"), entry.get("margin_faster")
    if margin is None:
        yield f"margin_{place}", "Each decisive metric has a margin of its own."
    for name, value in (("margin", margin), ("margin_faster", faster)):
        if value is not None and not _is_margin(value):
            yield f"{name}_{place}", "A margin is from 0.01 % to 100 %."
    if faster is not None and goal == Goal.NOT_SLOWER:
        yield (
            f"margin_faster_{place}",
            "How much faster it is does not matter where “not slower” is to be shown: leave this "
            "empty.",
        )


def _is_margin(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and SMALLEST <= value <= LARGEST
