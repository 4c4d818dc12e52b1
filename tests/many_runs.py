"""Thousands of runs in a second, for what has to stay flat: one run, copied by one statement."""

from __future__ import annotations

from django.db import connection

from experiments.models import Experiment, Run
from tests.factories import JobFactory, RunFactory

NODES = 40
DIFFERENT = {
    "uid": "md5(uid || n)",
    "repeat": "n + 1",
    "position": "n",
    "state": "CASE WHEN n % 50 = 0 THEN 'failed' ELSE 'succeeded' END",
    "node": f"'node' || n % {NODES}",
    "began_at": (
        "timestamptz '2026-01-01' + (n * 7919 + job_id * 13) % 8000000 * interval '1 second'"
    ),
}


def add_runs(experiment: Experiment, count: int) -> None:
    """Give an experiment `count` runs that have ended, all in one job."""
    first = RunFactory(job=JobFactory(experiment=experiment, repeat=1), repeat=1, position=0)
    columns = [field.column for field in Run._meta.concrete_fields if not field.primary_key]
    values = [DIFFERENT.get(column, f'"{column}"') for column in columns]
    names = ", ".join(f'"{column}"' for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {Run._meta.db_table} ({names}) SELECT {', '.join(values)} "
            f"FROM {Run._meta.db_table}, generate_series(1, {count - 1}) AS n WHERE id = {first.pk}"
        )


def refresh_statistics() -> None:
    """Let PostgreSQL count, as its own daemon does sooner or later."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
