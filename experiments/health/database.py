"""What PostgreSQL says of itself: its time, its age, its connections."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

QUERY = """
    SELECT statement_timestamp(), pg_postmaster_start_time(),
        split_part(current_setting('server_version'), ' ', 1),
        current_setting('max_connections')::int,
        (SELECT count(*) FROM pg_stat_activity WHERE usesysid IS NOT NULL)
"""


@dataclass(frozen=True)
class Database:
    """The server that answered."""

    now: datetime
    started_at: datetime
    version: str
    most_connections: int
    connections: int

    @property
    def is_nearly_full(self) -> bool:
        """Return whether soon nobody else can connect."""
        return self.connections >= 0.9 * self.most_connections


def read_database() -> Database:
    """Ask PostgreSQL for its state. Raises OperationalError where it does not answer."""
    with connection.cursor() as cursor:
        cursor.execute(QUERY)
        now, started_at, version, most, count = cursor.fetchone()
    return Database(now, started_at, version, most, count)
