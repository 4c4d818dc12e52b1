"""Progress by configuration: counts, values and remaining time of an experiment's runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TypeVar

from django.core.cache import cache
from django.db.models import prefetch_related_objects

from dashboard.environment_symbols import sort_environments
from experiments.comparisons import choose_primary_metric
from experiments.comparisons.comparison_keys import Inputs, identify_inputs
from experiments.comparisons.warm_ups import collect_warm_ups
from experiments.execution.progress import Progress, Tally
from experiments.models import Environment, Experiment, Job, Measurement, Run, Workload
from experiments.models.compiled_rows import KEY
from experiments.models.prepared_statements import PreparedStatement
from runners.workloads import Metric

# The strip of a cell is drawn on a canvas this wide.
STRIP_WIDTH = 240
STRIP_MARGIN = 6
MOST_SYMBOLS = 20
"""As many values of a cell are drawn as the environment's symbols, more of them as short lines."""
MOST_LINES = 60
"""More would lie on each other, and fill a page that is fetched every few seconds. All values are
on the comparison's page and in its files."""
MANY_VALUES = 1_000
"""More are remembered by the process, for a minute; fewer are read each time in a moment."""
REMEMBERED_SECONDS = 60
REMEMBERED_AFTER_THE_END = 3600
COUNT_CELLS = """
SELECT
    experiment_id, workload_id, scale, environment_id,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY ended_at - began_at) FILTER (WHERE is_clocked),
    count(*) FILTER (WHERE is_clocked),
    count(*) FILTER (WHERE is_running),
    sum(statement_timestamp() - began_at) FILTER (WHERE is_running),
    min(statement_timestamp() - began_at) FILTER (WHERE is_running),
    ARRAY[{counts}]
FROM (
    SELECT
        *,
        began_at IS NOT NULL AND ended_at IS NOT NULL
            AND state NOT IN ('failed', 'cancelled') AS is_clocked,
        state = 'running' AND ended_at IS NULL AS is_running
    FROM experiments_run WHERE experiment_id = ANY(%s::bigint[])
) AS run
GROUP BY experiment_id, workload_id, scale, environment_id
""".format(counts=", ".join(f"count(*) FILTER (WHERE state = '{name}')" for name in Run.State))
CELLS = PreparedStatement(COUNT_CELLS, [KEY], [KEY])
Remembered = TypeVar("Remembered")
Key = tuple[int, str, int]
"""Workload, scale and environment."""
Values = dict[Key, list[float]]
Counts = tuple[dict[Key, Counter[str]], list["Pace"]]
"""How many runs of each cell are in which state, and how long they take."""


@dataclass(frozen=True)
class Cell:
    """One workload in one environment at one scale."""

    environment: Environment
    mark: int
    tally: Tally
    values: Sequence[float]
    limits: tuple[float, float]

    @cached_property
    def points(self) -> list[float]:
        """Return where on the strip symbols stand; all cells of a row share one scale.

        Nothing where there are too many for symbols.
        """
        is_few = len(self.values) <= MOST_SYMBOLS
        return [self._place(value) for value in self.values] if is_few else []

    @cached_property
    def lines(self) -> str:
        """Return the path of one short line for each of many values, "" where there are few.

        Of more than MOST_LINES the smallest, the largest, and evenly chosen ones between them.
        """
        if len(self.values) <= MOST_SYMBOLS:
            return ""
        values = sorted(self.values)
        last, count = len(values) - 1, min(len(values), MOST_LINES)
        shown = {values[last * number // (count - 1)] for number in range(count)}
        return "".join([f"M{place:g} 7v10" for place in sorted({*map(self._place, shown)})])

    @property
    def mean(self) -> float | None:
        return self._place(sum(self.values) / len(self.values)) if self.values else None

    def _place(self, value: float) -> float:
        low, high = self.limits
        share = (value - low) / (high - low) if high > low else 0.5
        return round(STRIP_MARGIN + share * (STRIP_WIDTH - 2 * STRIP_MARGIN), 1)


@dataclass(frozen=True)
class Row:
    """One configuration in all environments."""

    workload: Workload
    scale: str
    metric: Metric
    cells: list[Cell]


@dataclass(frozen=True)
class Pace:
    """How long a run of one cell takes, in seconds, and how many are left."""

    usual: float | None
    """The median of those that came to an end without failing; None while there is none."""
    ended: int
    planned: int
    running: int = 0
    elapsed: float = 0.0
    """How long the running ones have run, together."""
    youngest: float = 0.0
    """How long the one has run that began last."""


@dataclass(frozen=True)
class Matrix:
    """The progress of all configurations in all environments."""

    environments: list[tuple[Environment, int]]  # with their marks, baseline first
    rows: list[Row]
    tally: Tally
    paces: list[Pace]


def estimate_seconds_left(
    paces: Sequence[Pace], *, at_once: int, cooldown_seconds: float = 0
) -> float | None:
    """Return how long the rest runs, `at_once` runs at a time; None while that is not known.

    Waiting in queues is no part of it: how long a run takes is measured by its own clock. The rest
    of a run that goes on for longer than usual counts as nothing.
    """
    known = [(pace.usual, pace.ended) for pace in paces if pace.usual is not None]
    if not known or not any(pace.planned + pace.running for pace in paces):
        return None
    of_all = sum(usual * ended for usual, ended in known) / sum(ended for _, ended in known)
    rest, longest = 0.0, 0.0
    for pace in paces:
        usual = of_all if pace.usual is None else pace.usual
        rest += pace.planned * (usual + cooldown_seconds)
        rest += max(pace.running * usual - pace.elapsed, 0.0)
        if pace.planned:
            longest = max(longest, usual)
        elif pace.running:
            longest = max(longest, usual - pace.youngest)
    return max(rest / max(at_once, 1), longest)


def estimate_all_left(
    experiments: Sequence[Experiment],
    all_progress: Mapping[int, Progress],
    cells: Mapping[int, Counts] | None = None,
) -> dict[int, float]:
    """Return how many seconds each experiment still runs, by its key, with one query for all.

    Those of which that is not known are missing. `cells`: what `count_cells` has returned, where it
    was asked before.
    """
    cells = count_cells(experiments) if cells is None else cells
    estimates = {
        row.pk: estimate_seconds_left(
            cells[row.pk][1],
            at_once=all_progress[row.pk].jobs[Job.State.RUNNING],
            cooldown_seconds=row.cooldown_seconds,
        )
        for row in experiments
        if row.pk in cells
    }
    return {key: seconds for key, seconds in estimates.items() if seconds}


def read_paces(experiment: Experiment) -> list[Pace]:
    """Return how long runs of each cell take and how many are left, with one query."""
    return count_cells([experiment]).get(experiment.pk, ({}, []))[1]


def build_matrix(experiment: Experiment, inputs: Inputs | None = None) -> Matrix:
    """Count the runs of every cell; at most six queries, however many runs there are.

    `inputs`: what the comparison rests on, where that was read before.
    """
    prefetch_related_objects([experiment], "environments", "workloads")
    environments = sort_environments(experiment, experiment.environments.all())
    index = {row.name: place for place, row in enumerate(environments)}
    states, paces = _count_cells_of(experiment, inputs)
    workloads = [
        (row, choose_primary_metric(experiment, row))
        for row in sorted(experiment.workloads.all(), key=attrgetter("natural_key"))
    ]
    succeeded = sum(counts[Run.State.SUCCEEDED] for counts in states.values())
    if succeeded > MANY_VALUES:
        inputs = inputs or identify_inputs([experiment])[experiment.pk]
    else:
        inputs = None
    values = _read_values(experiment, workloads, [row.name for row in environments], inputs)
    rows = []
    for workload, metric in workloads:
        for scale in experiment.scales:
            keys = [(workload.pk, scale, row.pk) for row in environments]
            if experiment.imported_at and not any(key in states for key in keys):
                continue  # nobody planned it, and nobody ran it
            values_by_environment = [values.get(key, []) for key in keys]
            all_values = [value for cell in values_by_environment for value in cell]
            limits = (min(all_values), max(all_values)) if all_values else (0.0, 0.0)
            cells = [
                Cell(row, index[row.name], Tally(states.get(key, Counter())), cell, limits)
                for row, key, cell in zip(environments, keys, values_by_environment, strict=True)
            ]
            rows.append(Row(workload, scale, metric, cells))
    total = sum(states.values(), Counter[str]())
    return Matrix([(row, index[row.name]) for row in environments], rows, Tally(total), paces)


def _count_cells_of(experiment: Experiment, inputs: Inputs | None) -> Counts:
    """Return how many runs of each cell are in which state, and how long they take.

    Of many runs that have all ended it is remembered: whatever changes one of them writes an event.
    """

    def read() -> Counts:
        return count_cells([experiment]).get(experiment.pk, ({}, []))

    return remember_after_the_end("cells", experiment, inputs, read)


def remember_after_the_end(
    what: str, experiment: Experiment, inputs: Inputs | None, read: Callable[[], Remembered]
) -> Remembered:
    """Return what was read before of the same inputs, if these are many runs that have ended."""
    if inputs is None or inputs.is_alive or inputs.ended_runs <= MANY_VALUES:
        return read()
    name = f"{what}-after-the-end-{experiment.pk}-{inputs.key}"
    remembered: Remembered | None = cache.get(name)
    if remembered is None:
        remembered = read()
        cache.set(name, remembered, REMEMBERED_AFTER_THE_END)
    return remembered


def count_cells(experiments: Sequence[Experiment]) -> dict[int, Counts]:
    """Return how many runs of each cell are in which state, and how long they take.

    By the experiment's key; one without runs is missing.

    A run that has ended by its journal is not left, although its job is still running.
    """
    if not experiments:
        return {}
    rows = CELLS.fetch([row.pk for row in experiments])
    by_experiment: dict[int, Counts] = {}
    for pk, workload, scale, environment, usual, ended, under_way, *times, numbers in rows:
        states, paces = by_experiment.setdefault(pk, ({}, []))
        counted = Counter(dict(zip(Run.State.values, numbers, strict=True)))
        states[workload, scale, environment] = +counted
        median, elapsed, youngest = (
            None if time is None else max(time.total_seconds(), 0.0) for time in (usual, *times)
        )
        planned = counted[Run.State.PLANNED]
        paces.append(Pace(median, ended, planned, under_way, elapsed or 0.0, youngest or 0.0))
    return by_experiment


def _read_values(
    experiment: Experiment,
    workloads: Sequence[tuple[Workload, Metric]],
    environments: list[str],
    inputs: Inputs | None,
) -> Values:
    """Return what `_values` does; of many runs remembered until something of them changes.

    Pages that follow an experiment ask every few seconds, most of the time for the same.
    """
    if inputs is None:
        return _values(experiment, workloads, environments)
    name = f"matrix-values-{experiment.pk}-{inputs.key}"
    remembered: Values | None = cache.get(name)
    if remembered is None:
        remembered = _values(experiment, workloads, environments)
        cache.set(name, remembered, REMEMBERED_SECONDS)
    return remembered


def _values(
    experiment: Experiment, workloads: Sequence[tuple[Workload, Metric]], environments: list[str]
) -> Values:
    """Return the values that are compared, by workload, scale and environment."""
    metrics = {workload.pk: metric for workload, metric in workloads}
    starts = {}
    if experiment.warm_up == Experiment.WarmUp.FOUND:
        starts = collect_warm_ups(experiment, [row for row, _ in workloads], metrics, environments)
    measured = Measurement.objects.filter(
        run__experiment=experiment,
        run__state=Run.State.SUCCEEDED,
        metric__in={metric.name for metric in metrics.values()},
    )
    values: Values = {}
    fields = ("run__workload", "run__scale", "run__environment", "run__uid", "metric", "value")
    for workload, scale, environment, uid, metric, value in measured.order_by().values_list(
        *fields
    ):
        if metric == metrics[workload].name:
            group = starts.get((workload, scale))
            decided = group.value(uid, value) if group else value
            values.setdefault((workload, scale, environment), []).append(decided)
    return values
