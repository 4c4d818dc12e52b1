"""What the steps inside the runs of one group say: read for the eye, thinned out, never tested."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from django.db.models import (
    BinaryField,
    Case,
    Count,
    F,
    Func,
    Max,
    QuerySet,
    Value,
    When,
)

from experiments.comparisons.accuracies import target_of
from experiments.models import Experiment, Run, Series, Workload
from experiments.statistics.steps import (
    Curve,
    Losses,
    Tail,
    Trained,
    losses,
    read_array,
    tail,
)

STEP_TIME, LOSS, ACCURACY, ACCURACY_TIME = "step_time", "loss", "accuracy", "accuracy_time"
PARAMETERS = "run__spec__workload__parameters"
CHUNK = 50
"""Runs whose series are fetched at once."""
BINARY = Func(F("values"), function="array_send", output_field=BinaryField())
"""The values as PostgreSQL holds them: to write them as text and read that takes thrice as long."""


@dataclass(frozen=True)
class Inside:
    """One workload at one scale; what its runs did not record is empty."""

    tails: list[Tail]
    losses: Losses
    accuracies: list[Curve]
    """Shares against seconds of training, an evaluation a point."""
    target: float
    """The accuracy whose time is asked for; 0: none."""
    is_logged: bool = False
    """Whether a value is the mean of several steps, as imported logs have it."""


def inside(experiment: Experiment, workload: Workload, scale: str) -> Inside:
    """Read the series of the runs that succeeded, the baseline's first; at most five queries.

    A thousand runs of a thousand steps are one array of 8 MB.
    """
    rows = Series.objects.filter(
        run__experiment=experiment,
        run__workload=workload,
        run__scale=scale,
        run__state=Run.State.SUCCEEDED,
    )
    recorded = list(
        rows.order_by()
        .values_list("metric")
        .annotate(Count("pk"), Max("values__len"), Count("steps"))
    )
    sizes = {metric: (runs, longest) for metric, runs, longest, _ in recorded}
    baseline_first = Case(
        When(run__environment=experiment.baseline_id, then=Value(0)), default=Value(1)
    )
    ordered = rows.order_by(
        baseline_first, "run__environment__name", "run__job__block", "run__position", "metric"
    )
    return Inside(
        tails=list(_tails(experiment, ordered)) if STEP_TIME in sizes else [],
        losses=_losses(experiment, ordered, *sizes[LOSS]) if LOSS in sizes else Losses(),
        accuracies=list(_accuracies(ordered)) if ACCURACY_TIME in sizes else [],
        target=target_of(workload.parameters),
        is_logged=any(logged for *_, logged in recorded),
    )


def _tails(experiment: Experiment, rows: QuerySet[Series]) -> Iterator[Tail]:
    """Pool the steps after each run's start-up, environment by environment.

    That is its own warm-up where the experiment goes by what was found, else its burn-in.
    """
    found_decides = experiment.warm_up == Experiment.WarmUp.FOUND
    steps = rows.filter(metric=STEP_TIME).values_list(
        "run__environment__name", BINARY, f"{PARAMETERS}__burn_in", "warm_up"
    )
    for name, runs in groupby(steps.iterator(chunk_size=CHUNK), key=itemgetter(0)):
        found = tail(
            name,
            (
                read_array(sent)[
                    warm_up if found_decides and warm_up is not None else int(burn_in or 0) :
                ]
                for _, sent, burn_in, warm_up in runs
            ),
        )
        if found:
            yield found


def _losses(experiment: Experiment, rows: QuerySet[Series], runs: int, longest: int) -> Losses:
    names = list(experiment.environments.order_by("name").values_list("name", flat=True))
    names.sort(key=lambda name: name != experiment.baseline.name)
    found = rows.filter(metric=LOSS).values_list(
        "run__uid", "run__environment__name", f"{PARAMETERS}__seed", BINARY, "steps"
    )
    trained = (
        Trained(uid, name, seed, read_array(sent), steps)
        for uid, name, seed, sent, steps in found.iterator(chunk_size=CHUNK)
    )
    return losses(trained, environments=names, runs=runs, steps=longest)


def _accuracies(rows: QuerySet[Series]) -> Iterator[Curve]:
    found = rows.filter(metric__in=(ACCURACY, ACCURACY_TIME)).values_list(
        "run__uid", "run__environment__name", "metric", "values"
    )
    for (run, name), series in groupby(found.iterator(chunk_size=CHUNK), key=itemgetter(0, 1)):
        both = {metric: values for _, _, metric, values in series}
        if len(both) == 2 and len(both[ACCURACY]) == len(both[ACCURACY_TIME]):
            yield Curve(name, both[ACCURACY_TIME], both[ACCURACY], run)
