"""How the trainings of each group ended: what stamps verdicts, from a number and a hash a run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import F, QuerySet

from experiments.comparisons.exclusions import counted
from experiments.comparisons.step_summaries import LOSS
from experiments.models import Experiment, Measurement, Series
from experiments.statistics.training.equivalence import Alike, Ending, alike, decided
from experiments.statistics.training.sentences import reason

Place = tuple[int, str]
"""A group in the database: the workload's primary key and the scale."""
ACCURACIES = ("accuracy", "top_1_accuracy")
PARAMETERS = "run__spec__workload__parameters"
SEED = f"{PARAMETERS}__seed"


@dataclass(frozen=True)
class Trainings:
    """Of one group: the losses by environment, the baseline's own first, and the accuracies."""

    losses: list[Alike] = field(default_factory=list)
    accuracies: list[Alike] = field(default_factory=list)

    @property
    def said(self) -> list[tuple[str, list[Alike]]]:
        """Each environment with what is to be said of it."""
        found: dict[str, list[Alike]] = {}
        for one in (*self.losses, *self.accuracies):
            found.setdefault(one.environment, []).append(one)
        return list(found.items())

    def amiss(self, environment: str) -> list[str]:
        """Why an environment's verdict is stamped; empty where it trained alike."""
        return [
            reason(one)
            for one in (*self.losses, *self.accuracies)
            if one.environment == environment and one.is_amiss
        ]

    def columns(self, environment: str) -> dict[str, Any]:
        """What the file of comparisons says of one environment."""
        return {
            f"{one.what}_{name}": value
            for one in (*self.losses, *self.accuracies)
            if one.environment == environment
            for name, value in (
                ("trained", str(one.outcome)),
                ("runs_compared", one.runs),
                ("runs_equal", one.equal),
                ("scale", "ln" if one.is_relative else "as it is"),
                ("difference_rms", one.rms),
                ("difference_mean", one.shift),
                ("seeds", one.baseline_seeds),
                ("sd_between_seeds", one.seed_sd),
                ("apart", one.apart),
                ("p", one.p),
                ("p_holm", one.p_holm),
            )
        }


def trainings(
    experiment: Experiment, environments: Sequence[str], also: Collection[int] = ()
) -> dict[Place, Trainings]:
    """Return each group whose runs have recorded losses; one query, and one more if any has.

    All runs that have succeeded (and `also` these) count, whether a look has judged them or not:
    what trains wrongly is to be seen at once.
    """
    series = Series.objects.filter(counted(also), metric=LOSS).exclude(digest="")
    losses = _endings(experiment, series, F("last_value"), "first_value", "digest")
    if not losses:
        return {}
    rows = Measurement.objects.filter(counted(also), metric__in=ACCURACIES, unit="1")
    accuracies = _endings(experiment, rows, F("value"), needs_labels=True)
    found = {
        place: Trainings(
            _compared(endings, environments),
            _compared(accuracies.get(place, _Endings()), environments, what="accuracy"),
        )
        for place, endings in losses.items()
    }
    # Holm's family is the study: every environment, configuration, loss and accuracy.
    family = iter(
        decided([one for each in found.values() for one in (*each.losses, *each.accuracies)])
    )
    return {
        place: Trainings(
            [next(family) for _ in each.losses], [next(family) for _ in each.accuracies]
        )
        for place, each in found.items()
    }


@dataclass
class _Endings:
    endings: list[Ending] = field(default_factory=list)
    seeds_known: bool = True


def _endings(
    experiment: Experiment, rows: QuerySet[Any], last: F, *more: str, needs_labels: bool = False
) -> dict[Place, _Endings]:
    """Return the runs of each group in the order of the plan.

    An accuracy on labels that were made up says nothing about what was learnt: `needs_labels`.
    """
    found: dict[Place, _Endings] = {}
    chosen = (
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
    for workload, scale, environment, uid, repeat, seed, data, dataset, value, *rest in chosen:
        if needs_labels and "synthetic" in f"{data} {dataset}":
            continue
        group = found.setdefault((workload, scale), _Endings())
        group.seeds_known &= seed is not None
        draw = f"repeat {repeat}" if seed is None else f"seed {seed}"
        group.endings.append(Ending(uid, environment, draw, value, *rest))
    return found


def _compared(found: _Endings, environments: Sequence[str], what: str = LOSS) -> list[Alike]:
    return alike(
        found.endings,
        baseline=environments[0],
        environments=environments,
        what=what,
        better="lower" if what == LOSS else "higher",
        seeds_known=found.seeds_known,
    )
