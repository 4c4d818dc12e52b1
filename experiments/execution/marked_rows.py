"""Rows that live parts of pages show, read together with the mark of what is shown of them.

One statement reads a row, those that are shown with it, and the versions of what else is shown
(experiments.execution.live_marks says what a mark holds). Who may view it is seen from these rows
(experiments.access.viewing), so that the statement is short and has been made before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django.db import models

from experiments.access.viewing import may_view
from experiments.execution.live_marks import DJANGO_TABLES, fill_mark, write_last_event
from experiments.execution.live_readings import AFTER_PROBLEM, LEAST_INTERVAL
from experiments.models import Operation, Run
from experiments.models.compiled_rows import KEY, TEXT, CompiledRows, select_json, select_sql
from experiments.models.experiment import LastEvent

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from experiments.models import User

MARK_OF_OPERATION = """
md5(jsonb_build_array(
    (experiments_operation.ctid, experiments_operation.xmin)::text,
    {cluster}
)::text)
"""
OF_OPERATION = (
    *("cluster__name", "cluster__max_live_jobs", "partition__name", "owner__username"),
    *("cluster__owner", "cluster__visibility", "cluster__recorded"),
    *("image__reference", "image__owner", "image__visibility"),
    *("staged_image__image__reference", "staged_image__image__owner"),
    *("staged_image__image__visibility", "staged_image__format", "staged_image__mode"),
    *("staged_image__cluster", "environment__name", "environment__owner"),
    *("environment__visibility", "environment__copy_of", "environment__cluster"),
    *("image_import__title", "image_import__reference", "image_import__image__reference"),
    *("image_import__image__owner", "image_import__image__visibility"),
    *("data_copy__cluster", "data_copy__data_set__name", "data_copy__data_set__owner"),
    *("data_copy__data_set__visibility", "code_copy"),
)
"""What is shown of the rows that an operation names, and what says who may view them."""
LEFT_OUT_OF_OPERATION = {"script", "result"}
MARK_OF_RUN = """
md5(jsonb_build_array(
    (
        experiments_run.ctid, experiments_run.xmin, experiments_job.ctid, experiments_job.xmin,
        experiments_experiment.ctid, experiments_experiment.xmin
    )::text,
    {cluster}, {events},
    {pauses},
    coalesce(
        (SELECT jsonb_build_array(reading.read_at, reading.problem, reading.directory)
         FROM experiments_livereading AS reading WHERE reading.run_id = experiments_run.id),
        '[null, "", ""]'
    )
)::text)
"""
IS_TO_BE_READ = """
experiments_run.state = 'running' AND experiments_cluster.enabled
AND experiments_cluster.wanted_at IS NULL AND NOT EXISTS (
    SELECT FROM experiments_livereading AS reading WHERE reading.run_id = experiments_run.id
    AND reading.read_at > now() - CASE reading.problem WHEN '' THEN %s ELSE %s END
)
"""
"""Whether it is time to ask for a visit that reads a run, where somebody looks at it."""
NUMBERED_ENVIRONMENTS = """
SELECT jsonb_object_agg(environment.name, environment.id)
FROM experiments_experiment_environments AS member
JOIN experiments_environment AS environment ON environment.id = member.environment_id
WHERE member.experiment_id = experiments_run.experiment_id
"""
HAS_MEASUREMENTS = """
EXISTS (SELECT FROM experiments_measurement AS measured WHERE measured.run_id = experiments_run.id)
"""
HAS_SERIES = """
EXISTS (SELECT FROM experiments_series AS series WHERE series.run_id = experiments_run.id)
"""
"""Both are stored when a run ends; a further attempt may have those of the one before it."""
NOT_IN_LIVE_PART = (
    *("command", "experiment__plan", "job__script", "job__cluster__setup_lines"),
    *("environment__binds", "environment__variables", "environment__setup_lines"),
)
"""Long columns of a run, and of what it is shown with, that its live part does not show."""


def _select_operation(pk: int) -> models.QuerySet[Operation]:
    own = {field.name for field in Operation._meta.concrete_fields} - LEFT_OUT_OF_OPERATION
    related = (
        *("cluster", "partition", "owner", "image", "staged_image__image", "environment"),
        *("image_import__image", "data_copy__data_set", "code_copy"),
    )
    return (
        Operation.objects.filter(pk=pk)
        .select_related(*related)
        .only(*own, *OF_OPERATION)
        .annotate(mark=select_sql(fill_mark(MARK_OF_OPERATION, **DJANGO_TABLES)))
        .order_by()
    )


def _select_run(uid: str) -> models.QuerySet[Run]:
    related = ("experiment", "job__cluster", "workload", "environment", "measure_notes")
    return (
        Run.objects.filter(uid=uid)
        .select_related(*related)
        .defer(*NOT_IN_LIVE_PART)
        .annotate(
            mark=select_sql(fill_mark(MARK_OF_RUN, **DJANGO_TABLES)),
            is_to_be_read=select_sql(IS_TO_BE_READ, LEAST_INTERVAL, AFTER_PROBLEM),
            numbered_environments=select_json(NUMBERED_ENVIRONMENTS),
            last_event=select_sql(write_last_event("id", "experiments_run.experiment_id")),
            last_event_at=select_sql(write_last_event("at", "experiments_run.experiment_id")),
            has_measurements=select_sql(HAS_MEASUREMENTS),
            has_series=select_sql(HAS_SERIES),
        )
        .order_by()
    )


OPERATION = CompiledRows(_select_operation, KEY)
RUN = CompiledRows(_select_run, TEXT)


def find_operation(reader: User, pk: int) -> Operation | None:
    """Return what the live part of an operation's page shows; None if it is hidden or gone."""
    row = OPERATION.find(pk)
    if row is None:
        return None
    # What it works on lies on its own cluster: that is not read once more.
    for named in (row.staged_image, row.environment, row.data_copy, row.code_copy):
        if named is not None and named.cluster_id == row.cluster_id:
            named.cluster = row.cluster
    return row if may_view(reader, row) else None


def find_run(reader: User | AnonymousUser, uid: str) -> Run | None:
    """Return what the live part of a run's page shows; None if it is hidden or gone."""
    row: Any = RUN.find(uid)
    if row is None or not may_view(reader, row.experiment):
        return None
    row.experiment.read_last_event = LastEvent(row.last_event, row.last_event_at)
    return cast(Run, row)
