"""The steps inside the runs of one group, thinned out for plots; nothing here is tested."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from django.db.models import BinaryField, Case, F, Func, Q, QuerySet, Value, When

from experiments.comparisons.accuracies import get_target
from experiments.comparisons.rows_by_key import iterate_values
from experiments.models import Experiment, Run, Series, Workload
from experiments.natural_order import sort_naturally
from experiments.statistics.run_bands import StepTrace, TimedRun, trace_steps
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
FURTHER_SHARES = ("top_5_accuracy", "mean_iou")
"""What evaluations measure beside the accuracy, at the same times."""
EVALUATED = (ACCURACY, *FURTHER_SHARES, ACCURACY_TIME, "accuracy_step")
MOST_OTHERS = 12
"""Further series that are drawn: a user's program may report any number of them."""
PARAMETERS = "run__spec__workload__parameters"
CHUNK = 50
"""Series that are fetched at once."""
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
    further_shares: Mapping[str, list[Curve]] = field(default_factory=dict)
    """By metric, as `accuracies`: what else the evaluations measured."""
    traces: list[StepTrace] = field(default_factory=list)
    """The step times of each environment that has three runs or more."""


@dataclass(frozen=True)
class Recorded:
    """A series that a run recorded, without its values."""

    key: int
    metric: str
    unit: str
    length: int
    has_steps: bool


def read_series(experiment: Experiment, workload: Workload, scale: str) -> Inside:
    """Read the series of the runs that succeeded, the baseline's first.

    There is a query for all keys, and one for every 50 series of each plot. A thousand runs of a
    thousand steps are one array of 8 MB.
    """
    rows = Series.objects.filter(
        run__experiment=experiment,
        run__workload=workload,
        run__scale=scale,
        run__state=Run.State.SUCCEEDED,
    )
    recorded = _list_recorded(experiment, rows)
    keys: dict[tuple[str, str], list[int]] = defaultdict(list)
    sizes: dict[tuple[str, str], tuple[int, int]] = {}
    for series in sorted(recorded, key=lambda series: (series.metric, series.unit)):
        name = series.metric, series.unit
        keys[name].append(series.key)
        sizes[name] = len(keys[name]), max(sizes.get(name, (0, 0))[1], series.length)
    others = [
        (metric, unit)
        for metric, unit in sizes
        if (metric, unit) not in OWN_PLOT
        and metric not in EVALUATED
        and " of instance " not in metric  # the first instance stands for the others
    ]
    drawn = {name: (*sizes[name], keys[name]) for name in others[:MOST_OTHERS]}
    evaluated = [
        series.key
        for series in recorded
        if series.metric in (ACCURACY, *FURTHER_SHARES, ACCURACY_TIME)
    ]
    has_times = any(series.metric == ACCURACY_TIME for series in recorded)
    curves = _read_evaluations(rows, evaluated) if has_times else {}
    pooled = list(_pool_steps(experiment, rows, keys[STEP_TIME, "s"]))
    return Inside(
        tails=[tail for tail, _ in pooled if tail],
        traces=[trace for _, trace in pooled if trace],
        losses=_read_losses(experiment, rows, keys[LOSS, "1"], sizes[LOSS, "1"][1])
        if (LOSS, "1") in sizes
        else Losses(),
        accuracies=curves.pop(ACCURACY, []),
        target=get_target(workload.parameters),
        is_logged=any(series.has_steps for series in recorded if series.metric == STEP_TIME),
        others=list(_read_others(experiment, rows, drawn)),
        left_out=[metric for metric, _ in others[MOST_OTHERS:]],
        further_shares=curves,
    )


def _list_recorded(experiment: Experiment, rows: QuerySet[Series]) -> list[Recorded]:
    """Return the series of the baseline first, then by environment, block and run order."""
    baseline_first = Case(
        When(run__environment=experiment.baseline_id, then=Value(0)), default=Value(1)
    )
    ordered = rows.annotate(length=F("values__len"), has_steps=Q(steps__isnull=False)).order_by(
        baseline_first,
        "run__environment__name",
        "run__job__block",
        "run__position",
        "run",
        "metric",
    )
    values = ordered.values_list("pk", "metric", "unit", "length", "has_steps")
    return [
        Recorded(key, metric, unit, length or 0, has_steps)
        for key, metric, unit, length, has_steps in values
    ]


def _pool_steps(
    experiment: Experiment, rows: QuerySet[Series], keys: Sequence[int]
) -> Iterator[tuple[Tail | None, StepTrace | None]]:
    """Yield each environment's steps, pooled after each run's start-up, and over the whole run.

    The start-up is the detected warm-up where the experiment uses that, else the fixed warm-up:
    the one that the program reported, as on the run's page, else the requested one.
    """
    uses_detected_warm_up = experiment.warm_up == Experiment.WarmUp.FOUND
    fields = (
        "run__environment__name",
        "run__uid",
        BINARY,
        "steps",
        "burn_in",
        f"{PARAMETERS}__burn_in",
        "warm_up",
    )
    steps = iterate_values(rows, keys, fields, CHUNK)
    for name, runs in groupby(steps, key=itemgetter(0)):
        cuts, timed = [], []
        for _, uid, array, ends, reported, requested, warm_up in runs:
            detected = warm_up if uses_detected_warm_up else None
            fixed = requested if reported is None else reported
            cuts.append(int((fixed if detected is None else detected) or 0))
            timed.append(TimedRun(uid, read_array(array), ends, cuts[-1]))
        yield (
            pool_steps(name, (run.values[cut:] for run, cut in zip(timed, cuts, strict=True))),
            trace_steps(name, timed),
        )


def _read_losses(
    experiment: Experiment, rows: QuerySet[Series], keys: Sequence[int], longest: int
) -> Losses:
    fields = ("run__uid", "run__environment__name", f"{PARAMETERS}__seed", BINARY, "steps")
    trained = (
        Trained(uid, name, seed, read_array(array), steps)
        for uid, name, seed, array, steps in iterate_values(rows, keys, fields, CHUNK)
    )
    return compare_losses(
        trained, environments=_environment_names(experiment), runs=len(keys), steps=longest
    )


def _read_others(
    experiment: Experiment,
    rows: QuerySet[Series],
    drawn: Mapping[tuple[str, str], tuple[int, int, Sequence[int]]],
) -> Iterator[Other]:
    """Yield the curves of each metric and unit, for which `drawn` has runs, longest and keys.

    No query where there are none.
    """
    if not drawn:
        return
    names = _environment_names(experiment)
    keys = [key for *_, its_keys in drawn.values() for key in its_keys]
    fields = ("metric", "unit", "run__uid", "run__environment__name", BINARY, "steps")
    all_series = iterate_values(rows, keys, fields, CHUNK)
    for (metric, unit), series in groupby(all_series, key=itemgetter(0, 1)):
        runs, longest, _ = drawn[metric, unit]
        trained = (
            Trained(uid, name, None, read_array(array), steps)
            for _, _, uid, name, array, steps in series
        )
        yield Other(
            metric, unit, compare_losses(trained, environments=names, runs=runs, steps=longest)
        )


def _environment_names(experiment: Experiment) -> list[str]:
    """Return the names of the environments, the baseline first."""
    names = experiment.environments.order_by().values_list("name", flat=True)
    return sorted(sort_naturally(names), key=lambda name: name != experiment.baseline.name)


def _read_evaluations(rows: QuerySet[Series], keys: Sequence[int]) -> dict[str, list[Curve]]:
    """Return the curves of each share that evaluations measured, by metric, against time."""
    curves: dict[str, list[Curve]] = {}
    fields = ("run__uid", "run__environment__name", "metric", "values")
    all_series = iterate_values(rows, keys, fields, CHUNK)
    for (run, name), series in groupby(all_series, key=itemgetter(0, 1)):
        values_by_metric = {metric: values for _, _, metric, values in series}
        times = values_by_metric.pop(ACCURACY_TIME, [])
        for metric in (ACCURACY, *FURTHER_SHARES):
            values = values_by_metric.get(metric)
            if values and len(values) == len(times):
                curves.setdefault(metric, []).append(Curve(name, times, values, run))
    return curves
