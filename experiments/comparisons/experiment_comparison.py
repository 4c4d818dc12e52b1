"""The comparison of an experiment's runs, computed from them. Pages read it by `kept`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from django.db.models import Exists, OuterRef

from experiments import program_files, snapshots
from experiments.comparisons.compared_pairs import (
    COLLECTED_AFTER,
    TRIED_AGAIN,
    compare_group,
    stamp_exclusions,
)
from experiments.comparisons.compared_runs import (
    choose_primary_metric,
    list_baseline_first,
    read_facts,
    read_samples,
)
from experiments.comparisons.comparison import Comparison, Group, is_decided
from experiments.comparisons.exclusions import Exclusion, list_exclusions
from experiments.comparisons.extended_pairs import list_extended_places
from experiments.comparisons.logged import describe_left_out, is_compared, list_compared_arms
from experiments.comparisons.rejections import JudgedRuns, Rejections
from experiments.comparisons.repaired import count_repaired_blocks, map_runs_to_second_jobs
from experiments.comparisons.trainings import compare_all_trainings
from experiments.comparisons.warm_ups import collect_warm_ups
from experiments.models import Experiment, Measurement, Run, Series, Workload
from experiments.planning.goals import get_margins
from experiments.planning.interim import Stage, read_stage
from experiments.software import frozen_parity
from experiments.statistics import Measured, correct_by_holm
from experiments.statistics.margins import Margin
from runners.workloads import KNOWN_WORKLOADS


@dataclass(frozen=True)
class RunDetails:
    """Which details the runs of an experiment have, beside their metrics."""

    has_steps: bool
    """Whether any run has series of its steps."""
    has_phases: bool
    """Whether any run that succeeded has reported its phases."""


@dataclass(frozen=True)
class ExperimentComparison(Comparison):
    """The comparison of an experiment's runs so far."""

    runs_have_pages: ClassVar = True
    experiment: Experiment
    stage: Stage
    """The interim analyses: before the first one is due there are runs, but no pairs."""
    exclusions: list[Exclusion]
    """The runs that persons have excluded; no samples contain them. Each pair has both verdicts."""
    rejections: list[Rejections]
    """What the rules of the plan have rejected; empty where they rejected nothing."""
    repaired: tuple[int, int]
    """How many blocks a second job has completed, and how many of those on any node."""
    left_out: list[str]
    """Of imported logs: sentences on what only one environment of a pair ran."""

    @property
    def margins(self) -> Margin:
        return get_margins(self.experiment)

    @property
    def about(self) -> dict[str, Any]:
        plan_hash = self.experiment.plan_hash
        return {"experiment": self.experiment.pk, **super().about, "plan_hash": plan_hash}

    @property
    def has_numbers(self) -> bool:
        """Return whether any run counts, or did until a person excluded it.

        Pairs without runs show only what the plan shows.
        """
        return bool(self.exclusions) or any(group.samples for group in self.groups)

    @cached_property
    def measured(self) -> set[str]:
        """Return the names of all metrics that runs which succeeded have measured."""
        rows = Measurement.objects.filter(
            run__experiment=self.experiment, run__state=Run.State.SUCCEEDED
        )
        return set(rows.order_by().values_list("metric", flat=True).distinct())

    @cached_property
    def run_details(self) -> RunDetails:
        """Return which details there are of the runs; one query."""
        succeeded = Run.objects.filter(experiment=OuterRef("pk"), state=Run.State.SUCCEEDED)
        answer = Experiment.objects.filter(pk=self.experiment.pk).values_list(
            Exists(Series.objects.filter(run__experiment=OuterRef("pk"))),
            Exists(succeeded.exclude(phases={})),
        )
        return RunDetails(*(answer.first() or (False, False)))

    @property
    def rejected(self) -> int:
        """Return how many runs the rules of the plan have rejected."""
        return sum(row.rejected for row in self.rejections)

    @property
    def planned(self) -> int:
        return self.stage.states.total()

    @property
    def ended(self) -> int:
        return sum(self.stage.states[state] for state in Run.FINAL)

    @property
    def alpha(self) -> float:
        """Return the level of every verdict, which the plan fixes before there is a pair."""
        return self.stage.level

    @property
    def decided(self) -> int:
        """Return how many pairs have a verdict other than "inconclusive"."""
        return sum(is_decided(pair) for pair in self.pairs)

    @property
    def may_stop(self) -> bool:
        """Return whether a person may keep the latest interim verdict and cancel the rest."""
        stage = self.stage
        return stage.waits and not stage.cancelled and not stage.extended_by and self.decided > 0


def compare_experiment(experiment: Experiment) -> ExperimentComparison:
    """Compare every environment with the baseline: the runs that succeeded, one value each.

    The number of queries does not depend on how many workloads, scales or runs there are.
    """
    workloads = list(experiment.workloads.order_by("sort_name"))
    metrics = {workload.pk: choose_primary_metric(experiment, workload) for workload in workloads}
    stage = read_stage(experiment)
    again, late = (
        set(experiment.events.filter(what=what).values_list("job__workload_id", "job__scale"))
        for what in (TRIED_AGAIN, COLLECTED_AFTER)
    )
    environments = list_baseline_first(experiment)
    parity = frozen_parity.read_frozen(experiment)
    excluded = list_exclusions(experiment)
    arms = list_compared_arms(experiment, workloads, environments)
    judged_runs = JudgedRuns(experiment)
    second_jobs = map_runs_to_second_jobs(experiment)
    extended = list_extended_places(experiment)
    places = [
        place
        for place, names in arms.items()
        if not experiment.imported_at or is_compared(names, environments[0])
    ]

    def groups(*, with_excluded: bool = False) -> list[Group]:
        """Compare the runs that succeeded, and those that persons have excluded if asked."""
        starts = collect_warm_ups(
            experiment, workloads, metrics, environments, with_excluded=with_excluded
        )
        samples = read_samples(experiment, metrics, starts, with_excluded=with_excluded)
        facts = read_facts(experiment, with_excluded=with_excluded)
        differences = {
            place: _compare_facts_with_baseline(experiment, rows) for place, rows in facts.items()
        }
        trained = compare_all_trainings(experiment, environments, with_excluded=with_excluded)
        compared = [
            compare_group(
                experiment,
                stage if (workload.pk, scale) in extended else stage.leave_out_extension(),
                {"workload": workload.name, "scale": scale},
                Measured(**asdict(metrics[workload.pk])),
                arms[workload, scale],
                samples.get((workload.pk, scale), []),
                differences.get((workload.pk, scale), {}),
                _describe_programs(workload, facts.get((workload.pk, scale), {}), environments),
                starts.get((workload.pk, scale)),
                parity,
                trained.get((workload.pk, scale)),
                tried_again=(workload.pk, scale) in again,
                collected_late=(workload.pk, scale) in late,
                second_jobs=second_jobs,
            )
            for workload, scale in places
        ]
        return _apply_holm(
            [
                replace(
                    group,
                    pairs=[
                        judged_runs.stamp(pair, (workload.pk, scale), stage.after_repeats)
                        for pair in group.pairs
                    ],
                )
                for (workload, scale), group in zip(places, compared, strict=True)
            ]
        )

    compared_groups = groups()
    if excluded:
        compared_groups = [
            stamp_exclusions(
                group,
                group_before,
                [exclusion for exclusion in excluded if exclusion.place == (workload.pk, scale)],
                [exclusion for exclusion in excluded if exclusion.place != (workload.pk, scale)],
                stage.after_repeats,
            )
            for (workload, scale), group, group_before in zip(
                places, compared_groups, groups(with_excluded=True), strict=True
            )
        ]
    return ExperimentComparison(
        key=experiment.key,
        question=experiment.question,
        margin=experiment.margin,
        paired=experiment.is_paired,
        environments=environments,
        groups=compared_groups,
        experiment=experiment,
        stage=stage,
        exclusions=excluded,
        rejections=judged_runs.list_rows(arms),
        repaired=count_repaired_blocks(experiment),
        left_out=describe_left_out(arms, environments),
    )


def _describe_programs(
    workload: Workload, facts: Mapping[str, list[Mapping[str, str]]], environments: Sequence[str]
) -> dict[str, str]:
    """Return a description of the user's program, by environment; empty for known workloads."""
    if not KNOWN_WORKLOADS[workload.kind].is_the_users:
        return {}
    baseline_facts = facts.get(environments[0], [])
    return {
        name: program_files.describe_programs(baseline_facts, facts.get(name, []))
        for name in environments
    }


def _compare_facts_with_baseline(
    experiment: Experiment, facts: Mapping[str, list[Mapping[str, str]]]
) -> dict[str, list[str]]:
    baseline_facts = facts.get(experiment.baseline.name, [])
    return {
        name: snapshots.list_differences(baseline_facts, environment_facts)
        for name, environment_facts in facts.items()
    }


def _apply_holm(groups: list[Group]) -> list[Group]:
    """Correct for the number of questions asked: Holm over all pairs of the experiment."""
    adjusted = iter(correct_by_holm([pair for group in groups for pair in group.pairs]))
    return [replace(group, pairs=[next(adjusted) for _ in group.pairs]) for group in groups]
