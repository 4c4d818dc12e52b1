"""The comparison of an experiment's runs, computed from them. Pages read it by `kept`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from django.db.models import Exists, OuterRef

from experiments.comparisons.comparison import (
    Comparison,
    Group,
    count_by_frequency,
    is_decided,
)
from experiments.comparisons.exclusions import Exclusion
from experiments.comparisons.experiment_groups import compare_groups, read_inputs
from experiments.comparisons.judged_together import judge_groups
from experiments.comparisons.logged import describe_left_out
from experiments.comparisons.rejections import Rejections
from experiments.comparisons.repaired import count_repaired_blocks
from experiments.models import Experiment, Measurement, Run, Series
from experiments.planning.aa_tests import list_names_of_baseline
from experiments.planning.goals import get_margins
from experiments.planning.interim import Stage
from experiments.statistics.margins import Margin
from experiments.statistics.several_metrics import Overall


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
    def pairs_with_excluded_runs(self) -> int:
        if not self.decisive:
            return super().pairs_with_excluded_runs
        return sum(bool(overall.before) for overall in self.decisive.values())

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
    inputs = read_inputs(experiment)
    groups, *further = compare_groups(inputs)
    return ExperimentComparison(
        key=experiment.key,
        question=experiment.question,
        margin=experiment.margin,
        paired=experiment.is_paired,
        environments=inputs.environments,
        groups=groups,
        experiment=experiment,
        stage=inputs.stage,
        exclusions=inputs.exclusions,
        rejections=inputs.judged_runs.list_rows(inputs.arms),
        repaired=count_repaired_blocks(experiment),
        left_out=describe_left_out(inputs.arms, inputs.environments),
        further=further,
        same_as_baseline=list_names_of_baseline(experiment),
        measured=_list_measured(experiment),
    )


def _list_measured(experiment: Experiment) -> list[str]:
    """Return the names of all metrics that runs which succeeded have measured, sorted."""
    rows = Measurement.objects.filter(run__experiment=experiment, run__state=Run.State.SUCCEEDED)
    return sorted(rows.order_by().values_list("metric", flat=True).distinct())
