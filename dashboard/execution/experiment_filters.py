"""Find the experiments that have a run which fulfils all conditions of a list.

Stored values often suffice to know whether some runs of an experiment fulfil a condition, and
whether all do. Only of the other experiments the runs themselves are read.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from django.db.models import Exists, OuterRef, QuerySet

from dashboard.execution.judged_values import Judgement, StoredValue, judge_condition
from dashboard.execution.run_conditions import Condition
from dashboard.execution.run_filters import apply_conditions, select_values
from experiments.execution.stored_values import RUNS, fetch_values
from experiments.models import Run

STORED = (
    *("runs", "count", "CASE WHEN cardinality(units) = 1 THEN units[1] END"),
    *("lowest", "highest", "shown::text", "largest::text"),
)
"""What a StoredValue is made of, in SQL."""


def find_experiments(conditions: Sequence[Condition], changed: Collection[int]) -> set[int]:
    """Return the keys of experiments that have a run which fulfils all conditions.

    `changed` are the experiments whose values are not stored as they are now.
    """
    keys = {condition.column.key for condition in conditions}
    all_runs: dict[int, int] = {}
    values: dict[str, dict[int, StoredValue]] = {key: {} for key in keys}
    for experiment, key, *others in fetch_values([RUNS, *keys], changed, STORED):
        if key == RUNS:
            all_runs[experiment] = others[0]
        else:
            values[key][experiment] = StoredValue(*others)
    judgements = [
        _judge_all(condition, values[condition.column.key], all_runs) for condition in conditions
    ]
    fitting_experiments, open_experiments = set(), []
    for experiment, *own in zip(all_runs, *judgements, strict=True):
        has_fitting_run = combine_judgements(own)
        if has_fitting_run is None:
            open_experiments.append(experiment)
        elif has_fitting_run:
            fitting_experiments.add(experiment)
    if open_experiments:
        fitting = select_fitting_runs(conditions)
        if 2 * len(open_experiments) < len(all_runs):
            fitting = fitting.filter(experiment__in=open_experiments)
        of_fitting_runs = fitting.order_by().values_list("experiment", flat=True).distinct()
        fitting_experiments.update(set(open_experiments).intersection(of_fitting_runs))
    return fitting_experiments


def _judge_all(
    condition: Condition, values: Mapping[int, StoredValue], all_runs: Mapping[int, int]
) -> list[Judgement]:
    """Judge a condition for each experiment; equal stored values are judged once.

    `all_runs` are how many runs of each count.
    """
    known: dict[tuple[StoredValue | None, int], Judgement] = {}
    judgements = []
    for experiment, runs in all_runs.items():
        stored = values.get(experiment)
        judgement = known.get((stored, runs))
        if judgement is None:
            judgement = known[stored, runs] = judge_condition(condition, stored, runs)
        judgements.append(judgement)
    return judgements


def combine_judgements(judgements: Sequence[Judgement]) -> bool | None:
    """Return whether some run fulfils all conditions; None where runs have to be read for it."""
    not_by_all = 0
    is_certain = True
    for some, every in judgements:
        if some is False:
            return False
        if not every:
            not_by_all += 1
            is_certain = is_certain and some is True
    return True if not_by_all <= 1 and is_certain else None


def select_fitting_runs(conditions: Sequence[Condition]) -> QuerySet[Run]:
    """Return the runs that count and fulfil all conditions."""
    runs = apply_conditions(Run.objects.filter(state=Run.State.SUCCEEDED), conditions)
    for condition in conditions:
        if condition.column.kind == "metric" and condition.operator in (">", ">="):
            finite = select_values(condition.column).filter(value__lt=math.inf)
            runs = runs.filter(Exists(finite.filter(run=OuterRef("pk"))))
    return runs
