"""What the steps inside the runs of one group say: read for the eye, thinned out, never tested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
OWN_PLOT = {(STEP_TIME, "s"), (LOSS, "1")}
EVALUATED = (ACCURACY, ACCURACY_TIME, "accuracy_step")
MOST_OTHERS = 12
"""Series beside these that are drawn: a program of the user's may report any number."""
PARAMETERS = "run__spec__workload__parameters"
CHUNK = 50
"""Runs whose series are fetched at once."""
BINARY = Func(F("values"), function="array_send", output_field=BinaryField())
"""The values as PostgreSQL holds them: to write them as text and read that takes thrice as long."""


@dataclass(frozen=True)
class Other:
    """A series that has no plot of its own kind: any number that a program gives step by step."""

    metric: str
    unit: str
    drawn: Losses
    """Its curves and medians; nothing is compared to the bit."""


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
    others: list[Other] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Of these, the series that were too many to be drawn."""


def inside(experiment: Experiment, workload: Workload, scale: str) -> Inside:
    """Read the series of the runs that succeeded, the baseline's first; at most six queries.

    A thousand runs of a thousand steps are one array of 8 MB.
    """
    rows = Series.objects.filter(
        run__experiment=experiment,
        run__workload=workload,
        run__scale=scale,
        run__state=Run.State.SUCCEEDED,
    )
    recorded = list(
        rows.order_by("metric", "unit")
        .values_list("metric", "unit")
        .annotate(Count("pk"), Max("values__len"), Count("steps"))
    )
    sizes = {(metric, unit): (runs, longest) for metric, unit, runs, longest, _ in recorded}
    others = [
        (metric, unit)
        for metric, unit in sizes
        if (metric, unit) not in OWN_PLOT
        and metric not in EVALUATED
        and " of instance " not in metric  # the first instance stands for the others
    ]
    metrics = {metric for metric, _ in sizes}
    baseline_first = Case(
        When(run__environment=experiment.baseline_id, then=Value(0)), default=Value(1)
    )
    ordered = rows.order_by(
        baseline_first, "run__environment__name", "run__job__block", "run__position", "metric"
    )
    return Inside(
        tails=list(_tails(experiment, ordered)) if (STEP_TIME, "s") in sizes else [],
        losses=_losses(experiment, ordered, *sizes[LOSS, "1"])
        if (LOSS, "1") in sizes
        else Losses(),
        accuracies=list(_accuracies(ordered)) if ACCURACY_TIME in metrics else [],
        target=target_of(workload.parameters),
        is_logged=any(logged for metric, *_, logged in recorded if metric == STEP_TIME),
        others=list(
            _others(experiment, ordered, {key: sizes[key] for key in others[:MOST_OTHERS]})
        ),
        left_out=[metric for metric, _ in others[MOST_OTHERS:]],
    )


def _tails(experiment: Experiment, rows: QuerySet[Series]) -> Iterator[Tail]:
    """Pool the steps after each run's start-up, environment by environment.

    That is its own warm-up where the experiment goes by what was found, else its burn-in: what
    the program has reported, as on the run's page, else what was asked for.
    """
    found_decides = experiment.warm_up == Experiment.WarmUp.FOUND
    steps = rows.filter(metric=STEP_TIME, unit="s").values_list(
        "run__environment__name",
        BINARY,
        "burn_in",
        f"{PARAMETERS}__burn_in",
        "warm_up",
    )
    for name, runs in groupby(steps.iterator(chunk_size=CHUNK), key=itemgetter(0)):
        found = tail(
            name,
            (
                read_array(sent)[
                    warm_up
                    if found_decides and warm_up is not None
                    else int((asked if reported is None else reported) or 0) :
                ]
                for _, sent, reported, asked, warm_up in runs
            ),
        )
        if found:
            yield found


def _losses(experiment: Experiment, rows: QuerySet[Series], runs: int, longest: int) -> Losses:
    found = rows.filter(metric=LOSS, unit="1").values_list(
        "run__uid", "run__environment__name", f"{PARAMETERS}__seed", BINARY, "steps"
    )
    trained = (
        Trained(uid, name, seed, read_array(sent), steps)
        for uid, name, seed, sent, steps in found.iterator(chunk_size=CHUNK)
    )
    return losses(trained, environments=_names(experiment), runs=runs, steps=longest)


def _others(
    experiment: Experiment, rows: QuerySet[Series], sizes: Mapping[tuple[str, str], tuple[int, int]]
) -> Iterator[Other]:
    """Draw each of these metrics and units; none of them asks for a query where there are none."""
    if not sizes:
        return
    names = _names(experiment)
    found = (
        rows.filter(metric__in={metric for metric, _ in sizes})
        .order_by("metric", "unit", *rows.query.order_by)
        .values_list("metric", "unit", "run__uid", "run__environment__name", BINARY, "steps")
    )
    for (metric, unit), series in groupby(found.iterator(chunk_size=CHUNK), key=itemgetter(0, 1)):
        if (metric, unit) not in sizes:
            continue
        runs, longest = sizes[metric, unit]
        drawn = (
            Trained(uid, name, None, read_array(sent), steps)
            for _, _, uid, name, sent, steps in series
        )
        yield Other(metric, unit, losses(drawn, environments=names, runs=runs, steps=longest))


def _names(experiment: Experiment) -> list[str]:
    """The environments, the baseline first."""
    names = list(experiment.environments.order_by("name").values_list("name", flat=True))
    names.sort(key=lambda name: name != experiment.baseline.name)
    return names


def _accuracies(rows: QuerySet[Series]) -> Iterator[Curve]:
    found = rows.filter(metric__in=(ACCURACY, ACCURACY_TIME)).values_list(
        "run__uid", "run__environment__name", "metric", "values"
    )
    for (run, name), series in groupby(found.iterator(chunk_size=CHUNK), key=itemgetter(0, 1)):
        both = {metric: values for _, _, metric, values in series}
        if len(both) == 2 and len(both[ACCURACY]) == len(both[ACCURACY_TIME]):
            yield Curve(name, both[ACCURACY_TIME], both[ACCURACY], run)
