"""Whether an experiment can be extended after its verdict, and what that takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from experiments.comparisons.comparison import Comparison, Group
from experiments.comparisons.experiment_comparison import ExperimentComparison
from experiments.comparisons.judged_samples import list_compared_samples
from experiments.design import Scale
from experiments.models import Experiment, Workload
from experiments.planning.extension_plans import (
    Place,
    count_most_added,
    explain_unfit_plan,
    forecast_repeat,
)
from experiments.statistics import Pair, Verdict, numbers
from experiments.statistics.arms import Arms
from experiments.statistics.extension_levels import (
    OpenQuestion,
    compute_error_rates,
    compute_extension_level,
    count_extension,
)


@dataclass(frozen=True)
class Offer:
    """An extension that could be had: what is proposed, and what it takes."""

    proposed: int | None
    """The repeats that would decide in 80 % of cases; None where even `most` would not."""
    most: int
    repeats: int
    """What the form begins with: what is proposed, else as many again as were planned."""
    configurations: int
    """How many have an inconclusive comparison, and so get further blocks."""
    gpu_hours: float
    """Of one more repeat of all of these, at most."""
    further_gpu_hours: float
    """At most so many more a repeat, where rules of the plan reject runs."""
    level: float
    error_difference: float
    """Of these repeats: the level, and how often both verdicts together see a difference."""
    error_goal: float

    @property
    def gpu_hours_in_all(self) -> float:
        return self.gpu_hours * self.repeats

    @property
    def further_in_all(self) -> float:
        return self.further_gpu_hours * self.repeats


def explain_why_not(comparison: ExperimentComparison) -> str:
    """Return why an experiment cannot be extended now, in words; "" if it can."""
    is_open = bool(list_open_groups(comparison))
    return explain_why_not_now(
        comparison.experiment, is_alive=comparison.stage.alive, is_open=is_open
    )


def explain_why_not_now(experiment: Experiment, *, is_alive: bool, is_open: bool) -> str:
    """Return the same where it is known whether runs live, and a comparison is inconclusive."""
    if experiment.launched_at is None or experiment.is_from_bundle:
        return "Only an experiment that was launched here can be extended."
    if experiment.extended_repeats:
        return (
            f"It was extended by {numbers.count(experiment.extended_repeats, 'repeat')} already. "
            "With each further verdict a wrong one gets more likely, so there is one extension "
            "and no second. Clone it with more repeats."
        )
    if experiment.cancelled_at:
        return "It was cancelled, so its plan has not been carried out. Clone it instead."
    if is_alive:
        return "Its planned runs have not all ended."
    if not experiment.cluster.enabled:
        return f"{experiment.cluster} is not in service."
    if experiment.archived_at:
        return "It is archived. Take it out of the archive first."
    if not is_open:
        return "No comparison of it is inconclusive."
    return explain_unfit_plan(experiment, experiment.partition)


def list_open_groups(comparison: Comparison) -> list[Group]:
    """Return the configurations of which a comparison is inconclusive."""
    return [
        group
        for group in comparison.groups
        if any(pair.verdict is Verdict.INCONCLUSIVE for pair in group.pairs)
    ]


def make_offer(comparison: ExperimentComparison) -> Offer | None:
    """Return what an extension takes, of an experiment that can be extended; three queries.

    None where the frozen plan does not say what its workloads are.
    """
    experiment = comparison.experiment
    groups = list_open_groups(comparison)
    rows = Experiment.objects.filter(pk=experiment.pk)
    workloads: dict[str, Any] | None = rows.values_list("plan__workloads", flat=True).get()
    if not workloads:
        return None
    places = find_open_places(experiment.workloads.all(), groups)
    environments = list(experiment.environments.all())
    forecasts = forecast_repeat(experiment, places, environments, workloads)
    most = count_most_added(experiment, experiment.partition)
    questions = [
        _ask(comparison, group, pair)
        for group in groups
        for pair in group.pairs
        if pair.verdict is Verdict.INCONCLUSIVE
    ]
    proposed = count_extension(questions, experiment.repeats, most)
    repeats = proposed or min(experiment.repeats, most)
    level = compute_extension_level(experiment.repeats, repeats)
    rates = compute_error_rates(experiment.repeats, repeats, level, paired=experiment.is_paired)
    return Offer(
        proposed=proposed,
        most=most,
        repeats=repeats,
        configurations=len(groups),
        gpu_hours=sum(each.gpu_hours_at_most for each in forecasts),
        further_gpu_hours=sum(each.further_gpu_hours for each in forecasts),
        level=level,
        error_difference=rates.difference,
        error_goal=rates.goal,
    )


def _ask(comparison: ExperimentComparison, group: Group, pair: Pair) -> OpenQuestion:
    """Return what is open in an inconclusive comparison, by the runs that it rests on."""
    samples = list_compared_samples(comparison, group, pair)
    arms = Arms.of(
        [sample for sample in samples if sample.environment == pair.baseline],
        [sample for sample in samples if sample.environment == pair.environment],
        paired=pair.paired,
        estimand=pair.estimand,
    )
    estimate = arms.estimate()
    if estimate is None:  # an inconclusive one has runs on both sides
        raise ValueError(f"Nothing is known of {pair.environment}.")
    return OpenQuestion(estimate, pair.margins, pair.better)


def find_open_places(workloads: Iterable[Workload], groups: Iterable[Group]) -> set[Place]:
    """Return the configurations as the frozen plan names them; a workload may be renamed since."""
    keys = {workload.name: str(workload.pk) for workload in workloads}
    return {
        (keys[group.configuration["workload"]], str(Scale.parse(group.configuration["scale"])))
        for group in groups
    }
