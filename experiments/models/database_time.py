"""The time by PostgreSQL's clock: those of the hosts that ask it need not agree.

`django.db.models.functions.Now` writes it, and compares with it, inside a statement.
"""

from __future__ import annotations

from datetime import datetime
from typing import cast

from django.db import connection


def database_now() -> datetime:
    """Return the time by PostgreSQL's clock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT STATEMENT_TIMESTAMP()")
        return cast(datetime, cursor.fetchone()[0])
