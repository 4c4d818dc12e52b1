"""The mark of what the page *Operations* shows: as long as it is the same, there is no news."""

from __future__ import annotations

from experiments.execution.live_marks import fill_mark
from experiments.health.processes import LATE
from experiments.models.prepared_statements import PreparedStatement
from experiments.notify import is_valkey_there

OF_REPORT = """
SELECT md5(jsonb_build_array(
    ARRAY(
        SELECT (
            token, started_at, ended_at,
            seen_at BETWEEN statement_timestamp() - %s AND statement_timestamp() + %s
        )::text
        FROM experiments_servicesign ORDER BY token
    ),
    ARRAY(
        SELECT jsonb_build_array({cluster}, {pauses}) FROM experiments_cluster AS cluster
        WHERE NOT cluster.recorded ORDER BY cluster.id
    ),
    ARRAY(
        SELECT (cluster_id, state, count(*))::text FROM experiments_job
        WHERE state NOT IN ('done', 'failed', 'cancelled')
        GROUP BY cluster_id, state ORDER BY cluster_id, state
    ),
    ARRAY(
        SELECT (cluster_id, state, count(*))::text FROM experiments_operation
        WHERE state NOT IN ('done', 'failed', 'cancelled')
        GROUP BY cluster_id, state ORDER BY cluster_id, state
    )
)::text)
"""
REPORT = PreparedStatement(fill_mark(OF_REPORT), [LATE, LATE], ())


def mark_report() -> str:
    """Return the mark of the report of this moment.

    Not in it are times of visits and of signs of life, sizes, and how many tasks wait or are done:
    these change all the time.
    """
    ((mark,),) = REPORT.fetch()
    return f"{mark} {is_valkey_there()}"
