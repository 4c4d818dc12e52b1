"""Training equivalence: whether all environments of a group trained to the same end.

Each run counts with its last value and a hash of its losses. A difference stamps verdicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import F, QuerySet

from experiments.comparisons.exclusions import Exclusion, filter_counted
from experiments.comparisons.step_summaries import LOSS
from experiments.comparisons.training_verdicts import (
    ACCURACY,
    GroupKey,
    count_diverged,
    judge_ends,
)
from experiments.models import Experiment, Measurement, Series
from experiments.planning.interim import Stage
from experiments.statistics.training.end_pairs import EndPair, TrainingStamp
from experiments.statistics.training.end_verdicts import correct_ends_by_holm
from experiments.statistics.training.equivalence import compare_trainings, decide_with_holm
from experiments.statistics.training.outcomes import Ending, TrainingComparison
from experiments.statistics.training.reproducibility import Reproducibility, compare_bitwise
from experiments.statistics.training.sentences import explain_stamp

ACCURACIES = ("accuracy", "top_1_accuracy")
PARAMETERS = "run__spec__workload__parameters"
SEED = f"{PARAMETERS}__seed"


@dataclass(frozen=True)
class Trainings:
    """The trainings of one group: losses and accuracies, the baseline's own first."""

    losses: list[TrainingComparison] = field(default_factory=list)
    accuracies: list[TrainingComparison] = field(default_factory=list)
    ends: list[EndPair] = field(default_factory=list)
    """The differences of the last losses and accuracies, with verdicts by the plan's margins; empty
    until all planned runs have ended."""
    bitwise: list[Reproducibility] = field(default_factory=list)
    diverged: dict[str, int] = field(default_factory=dict)
    """Runs whose loss was no number any more, by environment."""

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
    experiment: Experiment,
    environments: Sequence[str],
    *,
    stage: Stage | None = None,
    excluded: Sequence[Exclusion] = (),
    with_excluded: bool = False,
    reservations: Mapping[GroupKey, Sequence[tuple[TrainingStamp, str]]] | None = None,
) -> dict[GroupKey, Trainings]:
    """Return the trainings of each group whose runs recorded losses; one query, or two.

    With the `stage` of the experiment there are verdicts on their ends and the runs that diverged,
    by one query more where runs have failed; `excluded` are the runs that persons have excluded, of
    which verdicts tell, as they do of `reservations` about a whole group. All runs that succeeded
    count, and those that persons have excluded if asked for, even before an interim analysis has
    judged them: wrong training must be visible at once.
    """
    counted = filter_counted(with_excluded=with_excluded)
    series = Series.objects.filter(counted, metric=LOSS).exclude(digest="")
    losses = _read_endings(experiment, series, F("last_value"), "first_value", "digest")
    if not losses:
        return {}
    rows = Measurement.objects.filter(counted, metric__in=ACCURACIES, unit="1")
    accuracies = _read_endings(experiment, rows, F("value"), needs_labels=True)
    diverged = count_diverged(experiment, stage) if stage else {}
    undecided = {
        place: _compare_group(
            experiment,
            stage,
            environments,
            endings,
            accuracies.get(place, _Endings()),
            diverged.get(place, {}),
            Counter(row.environment for row in excluded if row.place == place),
        )
        for place, endings in losses.items()
    }
    # Holm's corrections are over the study: every environment, configuration, loss and accuracy.
    groups = list(undecided.values())
    decided_trainings = iter(
        decide_with_holm(
            [training for group in groups for training in (*group.losses, *group.accuracies)]
        )
    )
    judged_ends = iter(correct_ends_by_holm([pair for group in groups for pair in group.ends]))
    return {
        place: replace(
            group,
            losses=[next(decided_trainings) for _ in group.losses],
            accuracies=[next(decided_trainings) for _ in group.accuracies],
            ends=[
                _add_stamps(next(judged_ends), (reservations or {}).get(place, ()))
                for _ in group.ends
            ],
        )
        for place, group in undecided.items()
    }


def _add_stamps(end: EndPair, stamps: Sequence[tuple[TrainingStamp, str]]) -> EndPair:
    """Return the end with stamps beside its verdict, if it has one."""
    if end.verdict is None:
        return end
    for stamp, reason in stamps:
        end = end.add_stamp(stamp, reason)
    return end


def _compare_group(
    experiment: Experiment,
    stage: Stage | None,
    environments: Sequence[str],
    losses: _Endings,
    accuracies: _Endings,
    diverged: dict[str, int],
    excluded: Mapping[str, int],
) -> Trainings:
    """Return the trainings of one group before Holm's corrections."""
    ends = (
        judge_ends(
            experiment,
            stage,
            {LOSS: losses.endings, ACCURACY: accuracies.endings},
            environments,
            seeds_known={LOSS: losses.seeds_known, ACCURACY: accuracies.seeds_known},
            diverged=diverged,
            excluded=excluded,
        )
        if stage
        else []
    )
    return Trainings(
        _compare_with_baseline(losses, environments),
        _compare_with_baseline(accuracies, environments, what=ACCURACY),
        ends=ends,
        bitwise=compare_bitwise(
            losses.endings,
            baseline=environments[0],
            environments=environments,
            seeds_known=losses.seeds_known,
        ),
        diverged=diverged,
    )


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
            "run__job__block",
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
        block,
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
        series_fields: dict[str, Any] = dict(zip(("first", "digest"), rest, strict=False))
        group.endings.append(
            Ending(uid, environment, draw, value, **series_fields, block=str(block), repeat=repeat)
        )
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
