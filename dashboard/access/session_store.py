"""Sessions in the database, found by SQL that is made once a process: each request reads one."""

from __future__ import annotations

from typing import Any

from django.contrib.sessions.backends.db import SessionStore as DatabaseSessions
from django.utils import timezone

from experiments.models.compiled_rows import TEXT, CompiledRows

SESSIONS = CompiledRows(
    lambda key: DatabaseSessions.get_model_class().objects.filter(session_key=key), TEXT
)


class SessionStore(DatabaseSessions):
    """Django's own sessions in every other respect."""

    def _get_session_from_db(self) -> Any:
        row = SESSIONS.find(self.session_key) if self.session_key else None
        if row is None or row.expire_date <= timezone.now():
            self._session_key = None
            return None
        return row
