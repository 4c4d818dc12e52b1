"""The groups of an experiment's comparison: what they rest on, read once, and how they are made.

Groups are made for each decisive metric and each configuration, without the runs that persons have
excluded, and where there are any a second time with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import Any

from experiments import program_files
from experiments.comparisons.compared_pairs import (
    COLLECTED_AFTER,
    TRIED_AGAIN,
    WHY_AGAIN,
    WHY_LATE,
    compare_group,
    stamp_exclusions,
)
from experiments.comparisons.compared_runs import (
    find_reported_metric,
    list_baseline_first,
    read_samples,
)
from experiments.comparisons.comparison import Group
from experiments.comparisons.exclusions import Exclusion, list_exclusions
from experiments.comparisons.extended_pairs import list_extended_places
from experiments.comparisons.judged_together import (
    DecisiveMetric,
    correct_families,
    list_decisive,
)
from experiments.comparisons.logged import Arms, list_compared_arms, list_places
from experiments.comparisons.rejections import JudgedRuns
from experiments.comparisons.repaired import SecondJob, map_runs_to_second_jobs
from experiments.comparisons.run_facts import (
    CompareFacts,
    GroupFacts,
    make_compare_facts,
    read_facts,
)
from experiments.comparisons.trainings import Trainings, compare_all_trainings
from experiments.comparisons.warm_ups import GroupKey, collect_warm_ups
from experiments.models import Experiment, Workload
from experiments.planning.goals import get_margins
from experiments.planning.interim import Stage, read_stage
from experiments.software import frozen_parity
from experiments.statistics import Measured
from experiments.statistics.training.end_pairs import TrainingStamp
from runners.workloads import KNOWN_WORKLOADS


@dataclass(frozen=True)
class GroupInputs:
    """What the groups of an experiment rest on, with and without excluded runs."""

    experiment: Experiment
    workloads: list[Workload]
    environments: list[str]
    """Names, the baseline first."""
    arms: Arms
    """The environments of each configuration."""
    places: list[tuple[Workload, str]]
    """The configurations that are compared, in the order of the page."""
    stage: Stage
    decisive: list[DecisiveMetric]
    exclusions: list[Exclusion]
    tried_again: set[GroupKey]
    collected_late: set[GroupKey]
    extended: set[GroupKey]
    second_jobs: Mapping[str, SecondJob]
    judged_runs: JudgedRuns
    parity: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class _Recorded:
    """What all metrics have in common of the runs, with or without those that were excluded."""

    facts: Mapping[GroupKey, GroupFacts]
    compare_facts: Mapping[GroupKey, CompareFacts]
    """Compares them with the baseline's."""
    trained: Mapping[GroupKey, Trainings]
    with_excluded: bool


def read_inputs(experiment: Experiment) -> GroupInputs:
    """Read what the groups of an experiment rest on; the queries do not grow with its plan."""
    workloads = sorted(experiment.workloads.all(), key=attrgetter("natural_key"))
    stage = read_stage(experiment)
    tried_again, collected_late = (
        set(experiment.events.filter(what=what).values_list("job__workload_id", "job__scale"))
        for what in (TRIED_AGAIN, COLLECTED_AFTER)
    )
    environments = list_baseline_first(experiment)
    arms = list_compared_arms(experiment, workloads, environments)
    return GroupInputs(
        experiment=experiment,
        workloads=workloads,
        environments=environments,
        arms=arms,
        places=list_places(experiment, arms),
        stage=stage,
        decisive=list_decisive(experiment, workloads),
        exclusions=list_exclusions(experiment),
        tried_again=tried_again,
        collected_late=collected_late,
        extended=list_extended_places(experiment),
        second_jobs=map_runs_to_second_jobs(experiment),
        judged_runs=JudgedRuns(experiment),
        parity=frozen_parity.read_frozen(experiment),
    )


def compare_groups(inputs: GroupInputs) -> list[list[Group]]:
    """Return the groups of all configurations by each decisive metric, the main one first.

    Where persons have excluded runs each pair has the verdict with them beside its own.
    """
    by_metric = _compare_runs(inputs, with_excluded=False)
    if not inputs.exclusions:
        return by_metric
    by_metric_before = _compare_runs(inputs, with_excluded=True)
    return [
        _stamp_exclusions(inputs, groups, groups_before)
        for groups, groups_before in zip(by_metric, by_metric_before, strict=True)
    ]


def compare_by_metrics(experiment: Experiment, names: Sequence[str]) -> list[list[Group]]:
    """Return the groups of each of these metrics, whether or not the plan judges it.

    Of the workloads alone that report it. The margin is that of the primary metric, so verdicts on
    others mean nothing.
    """
    inputs = read_inputs(experiment)
    by_metric = []
    for name in names:
        metrics = {
            workload.pk: metric
            for workload in inputs.workloads
            if (metric := find_reported_metric(workload, name))
        }
        (groups,) = compare_groups(
            replace(
                inputs,
                workloads=[row for row in inputs.workloads if row.pk in metrics],
                places=[place for place in inputs.places if place[0].pk in metrics],
                decisive=[DecisiveMetric(metrics, get_margins(experiment))],
            )
        )
        by_metric.append(groups)
    return by_metric


def _compare_runs(inputs: GroupInputs, *, with_excluded: bool) -> list[list[Group]]:
    """Compare the runs that succeeded, and those that persons have excluded if asked."""
    recorded = _read_recorded(inputs, with_excluded=with_excluded)
    return correct_families(
        inputs.experiment,
        [_compare_metric(inputs, decisive, recorded) for decisive in inputs.decisive],
    )


def _read_recorded(inputs: GroupInputs, *, with_excluded: bool) -> _Recorded:
    experiment = inputs.experiment
    facts = read_facts(experiment, with_excluded=with_excluded)
    return _Recorded(
        facts,
        {
            (workload.pk, scale): make_compare_facts(
                experiment,
                facts.get((workload.pk, scale)),
                inputs.arms[workload, scale],
                inputs.parity,
            )
            for workload, scale in inputs.places
        },
        compare_all_trainings(
            experiment,
            inputs.environments,
            stage=inputs.stage,
            excluded=[] if with_excluded else inputs.exclusions,
            with_excluded=with_excluded,
            reservations={
                (workload.pk, scale): _list_training_reservations(inputs, (workload.pk, scale))
                for workload, scale in inputs.places
            },
        ),
        with_excluded,
    )


def _list_training_reservations(
    inputs: GroupInputs, key: GroupKey
) -> list[tuple[TrainingStamp, str]]:
    reservations = []
    if key in inputs.tried_again:
        reservations.append((TrainingStamp.TRIED_AGAIN, WHY_AGAIN))
    if key in inputs.collected_late:
        reservations.append((TrainingStamp.COLLECTED_AFTER, WHY_LATE))
    return reservations


def _compare_metric(
    inputs: GroupInputs, decisive: DecisiveMetric, recorded: _Recorded
) -> list[Group]:
    """Return the groups of one decisive metric, before any correction for several."""
    experiment, metrics = inputs.experiment, decisive.metrics
    with_excluded = recorded.with_excluded
    starts = collect_warm_ups(
        experiment, inputs.workloads, metrics, inputs.environments, with_excluded=with_excluded
    )
    samples = read_samples(experiment, metrics, starts, with_excluded=with_excluded)
    groups = []
    for workload, scale in inputs.places:
        key = workload.pk, scale
        group = compare_group(
            experiment,
            inputs.stage if key in inputs.extended else inputs.stage.leave_out_extension(),
            {"workload": workload.name, "scale": scale},
            Measured(**asdict(metrics[workload.pk])),
            inputs.arms[workload, scale],
            samples.get(key, []),
            recorded.compare_facts[key],
            _describe_programs(workload, recorded.facts.get(key), inputs.environments),
            starts.get(key),
            inputs.parity,
            recorded.trained.get(key),
            tried_again=key in inputs.tried_again,
            collected_late=key in inputs.collected_late,
            second_jobs=inputs.second_jobs,
            margin=decisive.margin,
        )
        groups.append(_stamp_rejections(inputs, group, key))
    return groups


def _stamp_rejections(inputs: GroupInputs, group: Group, key: GroupKey) -> Group:
    """Return the group with a stamp where rules have rejected runs of one side more often."""
    stamp = inputs.judged_runs.stamp
    pairs = [stamp(pair, key, inputs.stage.after_repeats) for pair in group.pairs]
    return replace(group, pairs=pairs)


def _stamp_exclusions(
    inputs: GroupInputs, groups: Sequence[Group], groups_before: Sequence[Group]
) -> list[Group]:
    """Stamp the groups of one metric for the runs that persons have excluded."""
    return [
        stamp_exclusions(
            group,
            group_before,
            [exclusion for exclusion in inputs.exclusions if exclusion.place == key],
            [exclusion for exclusion in inputs.exclusions if exclusion.place != key],
            inputs.stage.after_repeats,
        )
        for (workload, scale), group, group_before in zip(
            inputs.places, groups, groups_before, strict=True
        )
        for key in [(workload.pk, scale)]
    ]


def _describe_programs(
    workload: Workload, facts: GroupFacts | None, environments: Sequence[str]
) -> dict[str, str]:
    """Return a description of the user's program, by environment; empty for known workloads."""
    if not KNOWN_WORKLOADS[workload.kind].is_the_users:
        return {}
    by_environment = facts.by_environment if facts else {}
    baseline_facts = by_environment.get(environments[0], [])
    return {
        name: program_files.describe_programs(baseline_facts, by_environment.get(name, []))
        for name in environments
    }
