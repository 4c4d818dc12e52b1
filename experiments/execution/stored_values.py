"""The values of metrics, parameters and facts in the runs of experiments: stored, and as of now.

Of each experiment those runs count that succeeded and that nobody has excluded; NaN and the
infinities are no values. PostgreSQL notes each change in the transaction that makes it
(`ValueChange`), and a worker stores the values of changed experiments once a minute. Until then
each reader computes them, so what is read is always what the runs say.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from django.db import DataError, connection, transaction

from experiments.models import (
    ExperimentValue,
    Measurement,
    Run,
    RunParameter,
    Snapshot,
    ValueChange,
)
from experiments.models.database_locks import try_lock

logger = logging.getLogger(__name__)

METRIC, PARAMETER, FACT = "metric.", "parameter.", "fact."
"""How the keys of values begin."""
RUNS = "runs"
"""The key of the row that counts all runs of an experiment that count."""
MOST_SHOWN = 3
"""Values of a parameter or a fact that are stored, beside the largest."""
LONGEST_TEXT, LONGEST_NAME = RunParameter.MOST, 200
"""Characters that are stored of a fact, as of a parameter; facts with longer names are left out."""
PORTION = 50
"""Experiments whose values are stored in one transaction."""
BUDGET_SECONDS = 60
"""After so long a worker stops; the rest has its turn a minute later."""
LOCK = "experiment values"

VALUE, CHANGE = ExperimentValue._meta.db_table, ValueChange._meta.db_table
RUN, MEASUREMENT = Run._meta.db_table, Measurement._meta.db_table
RUN_PARAMETER, SNAPSHOT = RunParameter._meta.db_table, Snapshot._meta.db_table
COLUMNS = (
    *("experiment_id", "key", "runs", "count", "units", "median", "low", "high"),
    *("lowest", "highest", "shown", "largest"),
)
COUNTED = f"run.experiment_id = ANY(%(computed)s) AND run.state = '{Run.State.SUCCEEDED}'"
# PostgreSQL counts NaN as larger than infinity. Halfway between two of the largest numbers there is
# infinity, so a median may be too large.
METRICS = f"""
    SELECT experiment_id, '{METRIC}' || metric AS key,
        max(runs)::int AS runs, max(count)::int AS count,
        CASE WHEN min(first_unit) = max(last_unit) THEN ARRAY[min(first_unit)]
            WHEN max(count) > 0 THEN ARRAY[min(first_unit), max(last_unit)] END AS units,
        CASE WHEN bool_and(has_median) THEN max(median) FILTER (WHERE is_total) END AS median,
        CASE WHEN bool_and(has_median) THEN min(median) FILTER (WHERE NOT is_total) END AS low,
        CASE WHEN bool_and(has_median) THEN max(median) FILTER (WHERE NOT is_total) END AS high,
        min(lowest) AS lowest, max(highest) AS highest,
        NULL::jsonb AS shown, NULL::jsonb AS largest
    FROM (
        SELECT *, count = 0 OR first_unit = last_unit AND abs(median) < 'Infinity' AS has_median
        FROM (
            SELECT experiment_id, metric, GROUPING(workload_id) = 1 AS is_total,
                count(*) AS runs, count(*) FILTER (WHERE is_finite) AS count,
                min(unit) FILTER (WHERE is_finite) AS first_unit,
                max(unit) FILTER (WHERE is_finite) AS last_unit,
                percentile_cont(0.5) WITHIN GROUP (ORDER BY value) FILTER (WHERE is_finite)
                    AS median,
                min(value) FILTER (WHERE is_finite) AS lowest,
                max(value) FILTER (WHERE is_finite) AS highest
            FROM (
                SELECT run.experiment_id, run.workload_id, run.scale, measured.metric,
                    measured.unit, measured.value,
                    measured.value > '-Infinity' AND measured.value < 'Infinity' AS is_finite
                FROM {RUN} run JOIN {MEASUREMENT} measured ON measured.run_id = run.id
                WHERE {COUNTED} {{named}}
            ) measured
            GROUP BY GROUPING SETS (
                (experiment_id, metric), (experiment_id, metric, workload_id, scale)
            )
        ) grouped
    ) checked
    GROUP BY experiment_id, metric"""  # noqa: S608  (names of tables, and what stands above)
METRICS_NAMED = "AND measured.metric = ANY(%(metrics)s)"
PARAMETERS = f"""
    SELECT run.experiment_id, '{PARAMETER}' || given.name AS key, given.value, count(*) AS runs
    FROM {RUN} run JOIN {RUN_PARAMETER} given ON given.run_id = run.id
    WHERE {COUNTED} AND given.value NOT IN ('null', '""') {{named}}
    GROUP BY run.experiment_id, given.name, given.value"""  # noqa: S608
PARAMETERS_NAMED = "AND given.name = ANY(%(parameters)s)"
# Each snapshot is read once an experiment: many runs share one.
FACTS = f"""
    SELECT run.experiment_id, '{FACT}' || fact.name AS key,
        to_jsonb(left(fact.value, {LONGEST_TEXT})) AS value, sum(run.runs) AS runs
    FROM (
        SELECT experiment_id, snapshot_id, count(*) AS runs FROM {RUN} run
        WHERE {COUNTED} GROUP BY experiment_id, snapshot_id
    ) run
    JOIN {SNAPSHOT} snapshot ON snapshot.id = run.snapshot_id
    CROSS JOIN LATERAL {{facts}} AS fact(name, value)
    WHERE fact.value != '' AND length(fact.name) <= {LONGEST_NAME}
    GROUP BY 1, 2, 3"""  # noqa: S608
FACTS_NAMED = "(SELECT name, snapshot.facts ->> name FROM unnest(%(facts)s::text[]) AS name)"
FACTS_ALL = """jsonb_each_text(
    CASE jsonb_typeof(snapshot.facts) WHEN 'object' THEN snapshot.facts ELSE '{}' END)"""
OF_TEXTS = f"""
    SELECT experiment_id, key, runs::int, cardinality(all_values) AS count,
        NULL::varchar[] AS units, NULL::float8 AS median, NULL::float8 AS low,
        NULL::float8 AS high, NULL::float8 AS lowest, NULL::float8 AS highest,
        to_jsonb(all_values[1:{MOST_SHOWN}]) AS shown,
        all_values[cardinality(all_values)] AS largest
    FROM (
        SELECT experiment_id, key, sum(runs) AS runs, array_agg(value ORDER BY value) AS all_values
        FROM ({{parts}}) distinct_values GROUP BY experiment_id, key
    ) listed"""  # noqa: S608
ALL_RUNS = f"""
    SELECT run.experiment_id, '{RUNS}' AS key, count(*)::int AS runs, count(*)::int AS count,
        NULL::varchar[] AS units, NULL::float8 AS median, NULL::float8 AS low,
        NULL::float8 AS high, NULL::float8 AS lowest, NULL::float8 AS highest,
        NULL::jsonb AS shown, NULL::jsonb AS largest
    FROM {RUN} run WHERE {COUNTED} GROUP BY run.experiment_id"""  # noqa: S608
COMPUTE_ALL = " UNION ALL ".join(
    (
        METRICS.format(named=""),
        OF_TEXTS.format(
            parts=f"{PARAMETERS.format(named='')} UNION ALL {FACTS.format(facts=FACTS_ALL)}"
        ),
        ALL_RUNS,
    )
)


def select_values(
    keys: Iterable[str],
    changed: Collection[int],
    experiments: Collection[int] | None = None,
) -> tuple[str, dict[str, Any]]:
    """Return a statement of the values with these keys, and its parameters.

    Its columns are COLUMNS. Values of `changed` experiments are computed, those of others are the
    stored ones. Without `experiments` they are of all.
    """
    parameters: dict[str, Any] = {"keys": list(keys), "changed": list(changed)}
    stored = f"""SELECT {", ".join(COLUMNS)} FROM {VALUE}
        WHERE key = ANY(%(keys)s) AND experiment_id != ALL(%(changed)s)"""  # noqa: S608
    if experiments is not None:
        stored += " AND experiment_id = ANY(%(experiments)s)"
        parameters["experiments"] = list(experiments)
        changed = set(changed).intersection(experiments)
    if not changed:
        return stored, parameters
    computed, names = _compute(parameters["keys"])
    statement = " UNION ALL ".join(f"({part})" for part in (stored, *computed))
    return statement, parameters | names | {"computed": list(changed)}


def fetch_values(
    keys: Iterable[str],
    changed: Collection[int],
    columns: Sequence[str],
    experiments: Collection[int] | None = None,
) -> list[tuple[Any, ...]]:
    """Return the experiment, the key and some COLUMNS of these values, as `select_values` does."""
    statement, parameters = select_values(keys, changed, experiments)
    chosen = ", ".join(("experiment_id", "key", *columns))
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {chosen} FROM ({statement}) known", parameters)  # noqa: S608
        return list(cursor.fetchall())


def _compute(keys: Collection[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return statements that compute the values with these keys, and the parameters of these."""
    names = {
        kind: [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]
        for kind, prefix in (("metrics", METRIC), ("parameters", PARAMETER), ("facts", FACT))
    }
    parts = [METRICS.format(named=METRICS_NAMED)] if names["metrics"] else []
    of_texts = []
    if names["parameters"]:
        of_texts.append(PARAMETERS.format(named=PARAMETERS_NAMED))
    if names["facts"]:
        of_texts.append(FACTS.format(facts=FACTS_NAMED))
    if of_texts:
        parts.append(OF_TEXTS.format(parts=" UNION ALL ".join(of_texts)))
    if RUNS in keys:
        parts.append(ALL_RUNS)
    return parts, names


def list_changed() -> set[int]:
    """Return the experiments whose runs have changed since their values were stored."""
    rows = ValueChange.objects.order_by().values_list("experiment_id", flat=True)
    return set(rows.distinct())


def find_longest_waiting() -> int | None:
    """Return the experiment whose values have waited longest to be stored anew; None if none do."""
    changes = ValueChange.objects.order_by("pk").values_list("experiment_id", flat=True)
    return changes.first()


def store_changed_values() -> int:
    """Store the values of experiments whose runs have changed; return of how many.

    One process at a time does it, for BUDGET_SECONDS at most; others return at once.
    """
    stored = 0
    with try_lock(LOCK) as is_held:
        if not is_held:
            return stored
        deadline = time.monotonic() + BUDGET_SECONDS
        changes = ValueChange.objects.values_list("experiment_id", flat=True)
        # Those that have waited longest come first.
        waiting = list(dict.fromkeys(changes.order_by("pk").iterator()))
        for start in range(0, len(waiting), PORTION):
            if time.monotonic() > deadline:
                break
            stored += _store_portion(waiting[start : start + PORTION])
    return stored


def _store_portion(experiments: Sequence[int]) -> int:
    """Replace the stored values of these experiments; return of how many.

    Where a value of one cannot be stored, each is stored alone: that one keeps its notes, so that
    readers go on computing its values, and the log names it each time.
    """
    try:
        _store_values(experiments)
    except DataError:
        if len(experiments) > 1:
            return sum(_store_portion([experiment]) for experiment in experiments)
        logger.exception("The values of experiment %d cannot be stored.", *experiments)
        return 0
    return len(experiments)


@transaction.atomic
def _store_values(experiments: Sequence[int]) -> None:
    """Replace the stored values of experiments.

    The first statement deletes the notes of changes that have been committed, so the values that
    are computed next include these changes. A change that is committed meanwhile keeps its note.
    """
    ValueChange.objects.filter(experiment_id__in=experiments).delete()
    ExperimentValue.objects.filter(experiment_id__in=experiments).delete()
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {VALUE} ({', '.join(COLUMNS)}) {COMPUTE_ALL}",
            {"computed": list(experiments)},
        )
