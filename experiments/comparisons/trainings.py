"""Training equivalence: whether all environments of a group trained to the same end.

Each run counts with its last value and a hash of its losses. A difference stamps verdicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import F, QuerySet

from experiments.comparisons.exclusions import filter_counted
from experiments.comparisons.step_summaries import LOSS
from experiments.models import Experiment, Measurement, Series
from experiments.statistics.training.equivalence import compare_trainings, decide_with_holm
from experiments.statistics.training.outcomes import Ending, TrainingComparison
from experiments.statistics.training.sentences import explain_stamp

GroupKey = tuple[int, str]
"""A group in the database: the workload's primary key and the scale."""
ACCURACIES = ("accuracy", "top_1_accuracy")
PARAMETERS = "run__spec__workload__parameters"
SEED = f"{PARAMETERS}__seed"


@dataclass(frozen=True)
class Trainings:
    """The trainings of one group: losses and accuracies, the baseline's own first."""

    losses: list[TrainingComparison] = field(default_factory=list)
    accuracies: list[TrainingComparison] = field(default_factory=list)

    @property
    def by_environment(self) -> list[tuple[str, list[TrainingComparison]]]:
        """Return each environment with its results: those of losses, then those of accuracies."""
        results: dict[str, list[TrainingComparison]] = {}
        for training in (*self.losses, *self.accuracies):
            results.setdefault(training.environment, []).append(training)
        return list(results.items())

    def reasons_to_stamp(self, environment: str) -> list[str]:
        """Return the reasons to stamp an environment's verdict; empty where it trained alike."""
        return [
            explain_stamp(training)
            for training in (*self.losses, *self.accuracies)
            if training.environment == environment and training.is_amiss
        ]

    def columns(self, environment: str) -> dict[str, Any]:
        """Return the columns that the exported file of comparisons has about one environment."""
        return {
            f"{training.what}_{name}": value
            for training in (*self.losses, *self.accuracies)
            if training.environment == environment
            for name, value in (
                ("trained", str(training.outcome)),
                ("runs_compared", training.runs),
                ("runs_equal", training.equal),
                ("scale", "ln" if training.is_relative else "as it is"),
                ("difference_rms", training.rms),
                ("difference_mean", training.shift),
                ("seeds", training.baseline_seeds),
                ("sd_between_seeds", training.seed_sd),
                ("apart", training.apart),
                ("p", training.p),
                ("p_holm", training.p_holm),
            )
        }


def compare_all_trainings(
    experiment: Experiment, environments: Sequence[str], *, with_excluded: bool = False
) -> dict[GroupKey, Trainings]:
    """Return the trainings of each group whose runs recorded losses; one query, or two.

    All runs that succeeded count, and those that persons have excluded if asked for, even before an
    interim analysis has judged them: wrong training must be visible at once.
    """
    counted = filter_counted(with_excluded=with_excluded)
    series = Series.objects.filter(counted, metric=LOSS).exclude(digest="")
    losses = _read_endings(experiment, series, F("last_value"), "first_value", "digest")
    if not losses:
        return {}
    rows = Measurement.objects.filter(counted, metric__in=ACCURACIES, unit="1")
    accuracies = _read_endings(experiment, rows, F("value"), needs_labels=True)
    undecided = {
        place: Trainings(
            _compare_with_baseline(endings, environments),
            _compare_with_baseline(
                accuracies.get(place, _Endings()), environments, what="accuracy"
            ),
        )
        for place, endings in losses.items()
    }
    # Holm's correction is over the study: every environment, configuration, loss and accuracy.
    decided_trainings = iter(
        decide_with_holm(
            [
                training
                for group in undecided.values()
                for training in (*group.losses, *group.accuracies)
            ]
        )
    )
    return {
        place: Trainings(
            [next(decided_trainings) for _ in group.losses],
            [next(decided_trainings) for _ in group.accuracies],
        )
        for place, group in undecided.items()
    }


@dataclass
class _Endings:
    endings: list[Ending] = field(default_factory=list)
    seeds_known: bool = True


def _read_endings(
    experiment: Experiment, rows: QuerySet[Any], last: F, *more: str, needs_labels: bool = False
) -> dict[GroupKey, _Endings]:
    """Return the ends of the runs of each group, in the order of the plan.

    `needs_labels` leaves out synthetic data: an accuracy on made-up labels means nothing.
    """
    endings_by_group: dict[GroupKey, _Endings] = {}
    training_rows = (
        rows.filter(run__experiment=experiment)
        .order_by("run__job__block", "run__position", "metric")
        .values_list(
            "run__workload_id",
            "run__scale",
            "run__environment__name",
            "run__uid",
            "run__repeat",
            SEED,
            f"{PARAMETERS}__data",
            f"{PARAMETERS}__dataset",
            last,
            *more,
        )
    )
    for (
        workload,
        scale,
        environment,
        uid,
        repeat,
        seed,
        data,
        dataset,
        value,
        *rest,
    ) in training_rows:
        if needs_labels and "synthetic" in f"{data} {dataset}":
            continue
        group = endings_by_group.setdefault((workload, scale), _Endings())
        group.seeds_known &= seed is not None
        draw = f"repeat {repeat}" if seed is None else f"seed {seed}"
        group.endings.append(Ending(uid, environment, draw, value, *rest))
    return endings_by_group


def _compare_with_baseline(
    group: _Endings, environments: Sequence[str], what: str = LOSS
) -> list[TrainingComparison]:
    return compare_trainings(
        group.endings,
        baseline=environments[0],
        environments=environments,
        what=what,
        better="lower" if what == LOSS else "higher",
        seeds_known=group.seeds_known,
    )
