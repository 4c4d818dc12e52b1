"""Find the session and the person of each request by SQL that is made once a process.

In every other respect sessions and log-ins are Django's own.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import BACKEND_SESSION_KEY
from django.contrib.auth.backends import ModelBackend
from django.contrib.sessions.backends.db import SessionStore as DatabaseSessions
from django.utils import timezone

from experiments.models import User
from experiments.models.compiled_rows import KEY, TEXT, CompiledRows

SESSIONS = CompiledRows(
    lambda key: DatabaseSessions.get_model_class().objects.filter(session_key=key), TEXT
)
PEOPLE = CompiledRows(lambda pk: User.objects.filter(pk=pk), KEY)
BACKEND = "dashboard.access.logged_in.Backend"
FORMER_BACKEND = "django.contrib.auth.backends.ModelBackend"
"""The backend that sessions name which began before Tare had one of its own."""


class SessionStore(DatabaseSessions):
    """Sessions in the database."""

    def _get_session_from_db(self) -> Any:
        row = SESSIONS.find(self.session_key) if self.session_key else None
        if row is None or row.expire_date <= timezone.now():
            self._session_key = None
            return None
        return row

    def decode(self, session_data: bytes | str) -> dict[str, Any]:
        """Return the content of a session, with this backend in place of the former one."""
        content = super().decode(session_data)
        if content.get(BACKEND_SESSION_KEY) == FORMER_BACKEND:
            content[BACKEND_SESSION_KEY] = BACKEND
        return content


class Backend(ModelBackend):
    """People with a password."""

    def get_user(self, user_id: int) -> User | None:
        """Return the person of a session; None if they are gone or may not log in any more."""
        row = PEOPLE.find(user_id)
        return row if row is not None and self.user_can_authenticate(row) else None
