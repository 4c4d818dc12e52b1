"""Experiments that have a run which fulfils all conditions of a list.

What is stored of an experiment's runs often tells so already: whether some of them fulfil a
condition, and whether all do. The runs themselves are asked of the other experiments alone.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence

from django.db.models import Exists, OuterRef, QuerySet

from dashboard.execution.judged_values import Judgement, StoredValue, judge_condition
from dashboard.execution.run_conditions import Condition
from dashboard.execution.run_filters import apply_conditions, select_values
from experiments.execution.stored_values import RUNS, fetch_values
from experiments.models import Run


def find_experiments(conditions: Sequence[Condition], changed: Collection[int]) -> list[int]:
    """Return the keys of experiments that have a run which fulfils all conditions.

    `changed` are the experiments whose values are not stored as they are now.
    """
    keys = {condition.column.key for condition in conditions}
    values: defaultdict[int, dict[str, StoredValue]] = defaultdict(dict)
    for experiment, key, *others in fetch_values([RUNS, *keys], changed, StoredValue._fields):
        values[experiment][key] = StoredValue(*others)
    found, open_experiments = [], []
    for experiment, by_key in values.items():
        runs = by_key[RUNS].runs
        answer = combine_judgements(
            [
                judge_condition(condition, by_key.get(condition.column.key), runs)
                for condition in conditions
            ]
        )
        if answer is None:
            open_experiments.append(experiment)
        elif answer:
            found.append(experiment)
    if open_experiments:
        fitting = select_fitting_runs(conditions).filter(experiment__in=open_experiments)
        found += fitting.order_by().values_list("experiment", flat=True).distinct()
    return found


def combine_judgements(judgements: Sequence[Judgement]) -> bool | None:
    """Return whether some run fulfils all conditions; None where only the runs can tell."""
    if any(judgement.some is False for judgement in judgements):
        return False
    not_by_all = [judgement for judgement in judgements if not judgement.every]
    if not not_by_all:
        return True
    return True if len(not_by_all) == 1 and not_by_all[0].some else None


def select_fitting_runs(conditions: Sequence[Condition]) -> QuerySet[Run]:
    """Return the runs that count and fulfil all conditions."""
    runs = apply_conditions(Run.objects.filter(state=Run.State.SUCCEEDED), conditions)
    for condition in conditions:
        if condition.column.kind == "metric" and condition.operator in (">", ">="):
            finite = select_values(condition.column).filter(value__lt=math.inf)
            runs = runs.filter(Exists(finite.filter(run=OuterRef("pk"))))
    return runs
