"""The comparison of an experiment's runs, computed from them. Pages read it by `kept`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from django.db.models import Exists, OuterRef

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
    list_baseline_first,
    read_samples,
)
from experiments.comparisons.comparison import (
    Comparison,
    Group,
    count_by_frequency,
    is_decided,
)
from experiments.comparisons.exclusions import Exclusion, list_exclusions
from experiments.comparisons.extended_pairs import list_extended_places
from experiments.comparisons.judged_together import (
    correct_families,
    judge_groups,
    list_decisive,
)
from experiments.comparisons.logged import describe_left_out, is_compared, list_compared_arms
from experiments.comparisons.rejections import JudgedRuns, Rejections
from experiments.comparisons.repaired import count_repaired_blocks, map_runs_to_second_jobs
from experiments.comparisons.run_facts import GroupFacts, compare_with_baseline, read_facts
from experiments.comparisons.trainings import compare_all_trainings
from experiments.comparisons.warm_ups import collect_warm_ups
from experiments.models import Experiment, Measurement, Run, Series, Workload
from experiments.planning.aa_tests import list_names_of_baseline
from experiments.planning.goals import get_margins
from experiments.planning.interim import Stage, read_stage
from experiments.software import frozen_parity
from experiments.statistics import Measured
from experiments.statistics.margins import Margin
from experiments.statistics.several_metrics import Overall
from experiments.statistics.training.end_pairs import TrainingStamp
from runners.workloads import KNOWN_WORKLOADS, Metric


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
    further: list[list[Group]]
    """The same configurations by each further decisive metric of the plan; most have none."""
    same_as_baseline: list[str]
    """The environments that are the baseline itself, measured a second time: A/A tests."""
    measured: list[str]
    """The names of all metrics that runs which succeeded have measured, sorted."""

    @property
    def margins(self) -> Margin:
        return get_margins(self.experiment)

    @property
    def by_metric(self) -> list[list[Group]]:
        return [self.groups, *self.further]

    def take_configuration(self, number: int) -> Self:
        further = [[groups[number - 1]] for groups in self.further]
        taken = replace(self, groups=[self.groups[number - 1]], further=further)
        # What all metrics show is among all comparisons of the experiment, so it is not of these.
        taken.__dict__["decisive"] = {
            (1, name): overall
            for (place, name), overall in self.decisive.items()
            if place == number
        }
        return taken

    @cached_property
    def decisive(self) -> Mapping[tuple[int, str], Overall]:
        if not self.further:
            return {}
        return judge_groups(self.experiment, self.by_metric, self.environments)

    @property
    def verdicts(self) -> dict[str, int]:
        """Return how many have each verdict, of all decisive metrics together if several are."""
        if not self.decisive:
            return super().verdicts
        return count_by_frequency(overall.verdict for overall in self.decisive.values())

    @property
    def stamps(self) -> dict[str, int]:
        """Return how many have each stamp, on any decisive metric."""
        if not self.decisive:
            return super().stamps
        return count_by_frequency(
            stamp for overall in self.decisive.values() for stamp in overall.stamps
        )

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
    stage = read_stage(experiment)
    again, late = (
        set(experiment.events.filter(what=what).values_list("job__workload_id", "job__scale"))
        for what in (TRIED_AGAIN, COLLECTED_AFTER)
    )
    decisive_metrics = list_decisive(experiment, workloads)
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

    def groups(*, with_excluded: bool = False) -> list[list[Group]]:
        """Compare the runs that succeeded, and those that persons have excluded if asked.

        For each decisive metric the groups of all places, in their order.
        """
        facts = read_facts(experiment, with_excluded=with_excluded)
        compared_facts = {
            (workload.pk, scale): compare_with_baseline(
                experiment, facts.get((workload.pk, scale)), arms[workload, scale], parity
            )
            for workload, scale in places
        }
        trained = compare_all_trainings(
            experiment,
            environments,
            stage=stage,
            excluded=[] if with_excluded else excluded,
            with_excluded=with_excluded,
            reservations={
                (workload.pk, scale): [
                    *([(TrainingStamp.TRIED_AGAIN, WHY_AGAIN)] * ((workload.pk, scale) in again)),
                    *([(TrainingStamp.COLLECTED_AFTER, WHY_LATE)] * ((workload.pk, scale) in late)),
                ]
                for workload, scale in places
            },
        )

        def compare_metric(metrics: Mapping[int, Metric], margin: Margin) -> list[Group]:
            starts = collect_warm_ups(
                experiment, workloads, metrics, environments, with_excluded=with_excluded
            )
            samples = read_samples(experiment, metrics, starts, with_excluded=with_excluded)
            compared = [
                compare_group(
                    experiment,
                    stage if (workload.pk, scale) in extended else stage.leave_out_extension(),
                    {"workload": workload.name, "scale": scale},
                    Measured(**asdict(metrics[workload.pk])),
                    arms[workload, scale],
                    samples.get((workload.pk, scale), []),
                    compared_facts[workload.pk, scale],
                    _describe_programs(workload, facts.get((workload.pk, scale)), environments),
                    starts.get((workload.pk, scale)),
                    parity,
                    trained.get((workload.pk, scale)),
                    tried_again=(workload.pk, scale) in again,
                    collected_late=(workload.pk, scale) in late,
                    second_jobs=second_jobs,
                    margin=margin,
                )
                for workload, scale in places
            ]
            return [
                replace(
                    group,
                    pairs=[
                        judged_runs.stamp(pair, (workload.pk, scale), stage.after_repeats)
                        for pair in group.pairs
                    ],
                )
                for (workload, scale), group in zip(places, compared, strict=True)
            ]

        return correct_families(
            experiment,
            [compare_metric(decisive.metrics, decisive.margin) for decisive in decisive_metrics],
        )

    def stamp(by_place: list[Group], by_place_before: list[Group]) -> list[Group]:
        """Stamp the groups of one metric for the runs that persons have excluded."""
        return [
            stamp_exclusions(
                group,
                group_before,
                [exclusion for exclusion in excluded if exclusion.place == (workload.pk, scale)],
                [exclusion for exclusion in excluded if exclusion.place != (workload.pk, scale)],
                stage.after_repeats,
            )
            for (workload, scale), group, group_before in zip(
                places, by_place, by_place_before, strict=True
            )
        ]

    by_metric = groups()
    if excluded:
        by_metric = list(map(stamp, by_metric, groups(with_excluded=True)))
    return ExperimentComparison(
        key=experiment.key,
        question=experiment.question,
        margin=experiment.margin,
        paired=experiment.is_paired,
        environments=environments,
        groups=by_metric[0],
        experiment=experiment,
        stage=stage,
        exclusions=excluded,
        rejections=judged_runs.list_rows(arms),
        repaired=count_repaired_blocks(experiment),
        left_out=describe_left_out(arms, environments),
        further=by_metric[1:],
        same_as_baseline=list_names_of_baseline(experiment),
        measured=_list_measured(experiment),
    )


def _list_measured(experiment: Experiment) -> list[str]:
    """Return the names of all metrics that runs which succeeded have measured, sorted."""
    rows = Measurement.objects.filter(run__experiment=experiment, run__state=Run.State.SUCCEEDED)
    return sorted(rows.order_by().values_list("metric", flat=True).distinct())


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
