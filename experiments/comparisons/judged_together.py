"""The groups of several decisive metrics: corrected together, and what they show together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from experiments.comparisons.compared_runs import choose_primary_metric, find_metric
from experiments.comparisons.comparison import Group
from experiments.models import Experiment, Workload
from experiments.planning.decisive_metrics import get_rule, list_further
from experiments.planning.goals import get_margins
from experiments.statistics import Pair, correct_by_holm
from experiments.statistics.margins import Margin
from experiments.statistics.metric_rules import correct_several_by_holm
from experiments.statistics.several_metrics import Overall, Part, judge_together
from runners.workloads import Metric


@dataclass(frozen=True)
class DecisiveMetric:
    """A decisive metric of a plan: what it is for each workload (by primary key), its margin."""

    metrics: Mapping[int, Metric]
    margin: Margin


def list_decisive(experiment: Experiment, workloads: Sequence[Workload]) -> list[DecisiveMetric]:
    """Return the decisive metrics of a plan, the main one first."""
    main = {workload.pk: choose_primary_metric(experiment, workload) for workload in workloads}
    return [
        DecisiveMetric(main, get_margins(experiment)),
        *(
            DecisiveMetric(
                {workload.pk: find_metric(workload, further.name) for workload in workloads},
                further.margin,
            )
            for further in list_further(experiment)
        ),
    ]


def correct_families(
    experiment: Experiment, by_metric: Sequence[Sequence[Group]]
) -> list[list[Group]]:
    """Correct for the number of questions asked: Holm over all pairs of the experiment.

    With several decisive metrics what the plan does not judge is an estimate afterwards.
    """
    if len(by_metric) == 1:
        groups = by_metric[0]
        adjusted = iter(correct_by_holm([pair for group in groups for pair in group.pairs]))
        return [[replace(group, pairs=[next(adjusted) for _ in group.pairs]) for group in groups]]
    places = _list_places(by_metric)
    rows = [[_find_pair(groups[i], name) for groups in by_metric] for i, name in places]
    corrected: dict[tuple[int, int], list[Pair]] = {}
    for (i, _), row in zip(
        places, correct_several_by_holm(rows, get_rule(experiment)), strict=True
    ):
        for k, pair in enumerate(row):
            if pair:
                corrected.setdefault((k, i), []).append(pair)
    return [
        [replace(group, pairs=corrected.get((k, i), [])) for i, group in enumerate(groups)]
        for k, groups in enumerate(by_metric)
    ]


def judge_groups(
    experiment: Experiment, by_metric: Sequence[Sequence[Group]], environments: Sequence[str]
) -> dict[tuple[int, str], Overall]:
    """Return what all decisive metrics show together, by configuration (from 1) and environment.

    Nothing before the planned analysis is due.
    """
    places = _list_places(by_metric)
    rows = [[_make_part(groups[i], name) for groups in by_metric] for i, name in places]
    have_excluded = [any(part.pair and part.pair.before for part in parts) for parts in rows]
    overalls = judge_together(
        rows,
        get_rule(experiment),
        get_margins(experiment).goal,
        environments[0],
        [name for _, name in places],
        [
            [_with_excluded(part) for part in parts] if excluded else []
            for parts, excluded in zip(rows, have_excluded, strict=True)
        ],
    )
    has_several = len(by_metric[0]) > 1
    return {
        (i + 1, name): replace(overall, configuration=by_metric[0][i].name * has_several)
        for (i, name), overall in zip(places, overalls, strict=True)
    }


def _list_places(by_metric: Sequence[Sequence[Group]]) -> list[tuple[int, str]]:
    """Return each configuration, by its index, and environment that any metric has a pair of."""
    return [
        (i, name)
        for i in range(len(by_metric[0]))
        for name in dict.fromkeys(
            pair.environment for groups in by_metric for pair in groups[i].pairs
        )
    ]


def _find_pair(group: Group, environment: str) -> Pair | None:
    return next((pair for pair in group.pairs if pair.environment == environment), None)


def _make_part(group: Group, environment: str) -> Part:
    return Part(group.metric, _find_pair(group, environment), group.problem)


def _with_excluded(part: Part) -> Part:
    """Return the metric with the verdict that it has with the runs that persons have excluded."""
    if part.pair is None or part.pair.before is None:
        return part
    return replace(part, pair=replace(part.pair, verdict=part.pair.before.verdict))
