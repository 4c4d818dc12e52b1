"""An experiment as its live parts show it, read by one statement with the mark of what is shown.

How many runs and jobs are in which state is counted once, for the mark and for what is shown.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from django.db import models

from experiments.access.viewing import may_view
from experiments.execution.live_marks import DJANGO_TABLES, fill_mark, write_last_event
from experiments.execution.progress import Progress, measure_progress
from experiments.models import Experiment, Run
from experiments.models.compiled_rows import KEY, CompiledRows, select_json, select_sql
from experiments.models.experiment import LastEvent

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from experiments.models import User

VERSIONS_OF_EXPERIMENT = """
md5(jsonb_build_array(
    (experiments_experiment.ctid, experiments_experiment.xmin)::text,
    {cluster}, {events},
    {pauses},
    (SELECT (kept.ctid, kept.xmin)::text FROM experiments_keptcomparison AS kept
     WHERE kept.experiment_id = experiments_experiment.id),
    (SELECT (citation.ctid, citation.xmin)::text FROM experiments_citation AS citation
     WHERE citation.experiment_id = experiments_experiment.id),
    ARRAY(SELECT (run.id, run.ctid, run.xmin)::text FROM experiments_run AS run
          WHERE run.experiment_id = experiments_experiment.id AND run.state = 'running'
          ORDER BY run.id),
    ARRAY(SELECT (job.id, job.ctid, job.xmin)::text FROM experiments_job AS job
          WHERE job.experiment_id = experiments_experiment.id
          AND job.cluster_id = experiments_cluster.id
          AND job.state IN ('submitting', 'queued', 'running', 'collecting') ORDER BY job.id)
)::text)
"""
COUNT_IN_STATE = """
'{state}', nullif(
    (SELECT count(*) FROM experiments_run AS run
     WHERE run.experiment_id = experiments_experiment.id AND run.state = '{state}'),
    0
)
"""
RUN_COUNTS = "jsonb_strip_nulls(jsonb_build_object({counts}))".format(
    counts=", ".join(COUNT_IN_STATE.format(state=state) for state in Run.State)
)
"""One state after the other: to group 20,000 runs takes longer than to count them."""
JOB_COUNTS = """
SELECT coalesce(jsonb_object_agg(counted.state, counted.number), '{}') FROM (
    SELECT job.state, count(*) AS number FROM experiments_job AS job
    WHERE job.experiment_id = experiments_experiment.id AND job.state = 'planned'
    GROUP BY job.state
    UNION ALL
    SELECT job.state, count(*) AS number FROM experiments_job AS job
    WHERE job.experiment_id = experiments_experiment.id
    AND job.cluster_id = experiments_cluster.id
    AND job.state IN ('submitting', 'queued', 'running', 'collecting') GROUP BY job.state
) AS counted
"""
"""Of jobs that have not ended: the others are many, and no live part shows them."""
FINISHED_RUNS = """
SELECT count(*) FROM experiments_run AS run
WHERE run.experiment_id = experiments_experiment.id AND run.state = 'running'
AND run.ended_at IS NOT NULL
"""
IS_SOURCE = """
EXISTS (
    SELECT FROM experiments_experiment AS other
    WHERE other.copied_from_id = experiments_experiment.id
    OR other.reproduces_id = experiments_experiment.id
)
"""
RECURS = """
EXISTS (
    SELECT FROM experiments_recurrence AS recurrence
    WHERE recurrence.experiment_id = experiments_experiment.id
)
"""

RELATED = ("cluster", "partition", "baseline", "owner", "citation", "kept_comparison")
NOT_IN_LIVE_PART = (
    *("plan", "kept_comparison__content", "cluster__setup_lines"),
    *("baseline__binds", "baseline__variables", "baseline__setup_lines"),
)
"""Long columns of an experiment, and of what it is shown with, that no live part shows."""


def _select_experiment(pk: int) -> models.QuerySet[Experiment]:
    return (
        Experiment.objects.filter(pk=pk)
        .select_related(*RELATED)
        .defer(*NOT_IN_LIVE_PART)
        .annotate(
            versions=select_sql(fill_mark(VERSIONS_OF_EXPERIMENT, **DJANGO_TABLES)),
            run_counts=select_json(RUN_COUNTS),
            job_counts=select_json(JOB_COUNTS),
            finished_runs=select_sql(FINISHED_RUNS),
            last_event=select_sql(write_last_event("id", "experiments_experiment.id")),
            last_event_at=select_sql(write_last_event("at", "experiments_experiment.id")),
            is_source=select_sql(IS_SOURCE),
            recurs=select_sql(RECURS),
        )
        .order_by()
    )


EXPERIMENT = CompiledRows(_select_experiment, KEY)


def find_experiment(reader: User | AnonymousUser, pk: int) -> Any:
    """Return the experiment as its live parts show it; None if it is hidden or gone.

    `mark`: the mark of all that is shown; `run_counts` and `job_counts`: how many runs and live or
    planned jobs are in which state; `finished_runs`: of those that run, how many wait for their
    jobs; `is_source`, `recurs`: as `find_related` finds them.
    """
    row: Any = EXPERIMENT.find(pk)
    if row is None or not may_view(reader, row):
        return None
    row.read_last_event = LastEvent(row.last_event, row.last_event_at)
    row.mark = json.dumps([row.versions, row.run_counts, row.job_counts], sort_keys=True)
    return row


def measure_its_progress(row: Any) -> Progress:
    """Return the progress of an experiment that `find_experiment` has read.

    Of its jobs only those are counted that have not ended.
    """
    counts = ({row.pk: Counter(counted)} for counted in (row.run_counts, row.job_counts))
    return measure_progress([row], *counts)[row.pk]
