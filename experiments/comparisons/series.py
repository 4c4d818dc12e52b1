"""The steps inside the runs of one group, thinned out for plots; nothing here is tested."""

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

from experiments.comparisons.accuracies import get_target
from experiments.models import Experiment, Run, Series, Workload
from experiments.statistics.steps import (
    Curve,
    Losses,
    Tail,
    Trained,
    compare_losses,
    pool_steps,
    read_array,
)

STEP_TIME, LOSS, ACCURACY, ACCURACY_TIME = "step_time", "loss", "accuracy", "accuracy_time"
OWN_PLOT = {(STEP_TIME, "s"), (LOSS, "1")}
EVALUATED = (ACCURACY, ACCURACY_TIME, "accuracy_step")
MOST_OTHERS = 12
"""Further series that are drawn: a user's program may report any number of them."""
PARAMETERS = "run__spec__workload__parameters"
CHUNK = 50
"""Runs whose series are fetched at once."""
BINARY = Func(F("values"), function="array_send", output_field=BinaryField())
"""The values in PostgreSQL's binary form: writing and reading text takes three times as long."""


@dataclass(frozen=True)
class Other:
    """A series without a plot of its own kind: any number that a program reports step by step."""

    metric: str
    unit: str
    drawn: Losses
    """Its curves and medians; nothing is compared bit by bit."""


@dataclass(frozen=True)
class Inside:
    """The series of one workload at one scale; what its runs did not record is empty."""

    tails: list[Tail]
    losses: Losses
    accuracies: list[Curve]
    """Shares against seconds of training, one point for each evaluation."""
    target: float
    """The accuracy to be reached; 0 for none."""
    is_logged: bool = False
    """Whether a value is the mean of several steps, as in imported logs."""
    others: list[Other] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Metrics of further series that are not drawn because there are too many."""


def read_series(experiment: Experiment, workload: Workload, scale: str) -> Inside:
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
        tails=list(_pool_tails(experiment, ordered)) if (STEP_TIME, "s") in sizes else [],
        losses=_read_losses(experiment, ordered, *sizes[LOSS, "1"])
        if (LOSS, "1") in sizes
        else Losses(),
        accuracies=list(_read_accuracies(ordered)) if ACCURACY_TIME in metrics else [],
        target=get_target(workload.parameters),
        is_logged=any(logged for metric, *_, logged in recorded if metric == STEP_TIME),
        others=list(
            _read_others(experiment, ordered, {key: sizes[key] for key in others[:MOST_OTHERS]})
        ),
        left_out=[metric for metric, _ in others[MOST_OTHERS:]],
    )


def _pool_tails(experiment: Experiment, rows: QuerySet[Series]) -> Iterator[Tail]:
    """Pool the steps after each run's start-up, environment by environment.

    The start-up is the detected warm-up where the experiment uses that, else the fixed warm-up:
    the one that the program reported, as on the run's page, else the requested one.
    """
    uses_detected_warm_up = experiment.warm_up == Experiment.WarmUp.FOUND
    steps = rows.filter(metric=STEP_TIME, unit="s").values_list(
        "run__environment__name",
        BINARY,
        "burn_in",
        f"{PARAMETERS}__burn_in",
        "warm_up",
    )
    for name, runs in groupby(steps.iterator(chunk_size=CHUNK), key=itemgetter(0)):
        environment_tail = pool_steps(
            name,
            (
                read_array(array)[
                    warm_up
                    if uses_detected_warm_up and warm_up is not None
                    else int((requested if reported is None else reported) or 0) :
                ]
                for _, array, reported, requested, warm_up in runs
            ),
        )
        if environment_tail:
            yield environment_tail


def _read_losses(experiment: Experiment, rows: QuerySet[Series], runs: int, longest: int) -> Losses:
    series = rows.filter(metric=LOSS, unit="1").values_list(
        "run__uid", "run__environment__name", f"{PARAMETERS}__seed", BINARY, "steps"
    )
    trained = (
        Trained(uid, name, seed, read_array(array), steps)
        for uid, name, seed, array, steps in series.iterator(chunk_size=CHUNK)
    )
    return compare_losses(
        trained, environments=_environment_names(experiment), runs=runs, steps=longest
    )


def _read_others(
    experiment: Experiment, rows: QuerySet[Series], sizes: Mapping[tuple[str, str], tuple[int, int]]
) -> Iterator[Other]:
    """Yield the curves of each metric and unit in `sizes`; no query where there are none."""
    if not sizes:
        return
    names = _environment_names(experiment)
    series_rows = (
        rows.filter(metric__in={metric for metric, _ in sizes})
        .order_by("metric", "unit", *rows.query.order_by)
        .values_list("metric", "unit", "run__uid", "run__environment__name", BINARY, "steps")
    )
    for (metric, unit), series in groupby(
        series_rows.iterator(chunk_size=CHUNK), key=itemgetter(0, 1)
    ):
        if (metric, unit) not in sizes:
            continue
        runs, longest = sizes[metric, unit]
        drawn = (
            Trained(uid, name, None, read_array(array), steps)
            for _, _, uid, name, array, steps in series
        )
        yield Other(
            metric, unit, compare_losses(drawn, environments=names, runs=runs, steps=longest)
        )


def _environment_names(experiment: Experiment) -> list[str]:
    """Return the names of the environments, the baseline first."""
    names = list(experiment.environments.order_by("name").values_list("name", flat=True))
    names.sort(key=lambda name: name != experiment.baseline.name)
    return names


def _read_accuracies(rows: QuerySet[Series]) -> Iterator[Curve]:
    series_rows = rows.filter(metric__in=(ACCURACY, ACCURACY_TIME)).values_list(
        "run__uid", "run__environment__name", "metric", "values"
    )
    for (run, name), series in groupby(
        series_rows.iterator(chunk_size=CHUNK), key=itemgetter(0, 1)
    ):
        values_by_metric = {metric: values for _, _, metric, values in series}
        if len(values_by_metric) == 2 and len(values_by_metric[ACCURACY]) == len(
            values_by_metric[ACCURACY_TIME]
        ):
            yield Curve(name, values_by_metric[ACCURACY_TIME], values_by_metric[ACCURACY], run)
