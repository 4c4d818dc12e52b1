"""Requests of tests by a new token of a person."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.test import Client
from django.utils import timezone

from experiments.models import User
from experiments.models.api_token import make_token


def log_in(user: User, *scopes: str, days: float = 1) -> dict[str, str]:
    """Return the headers of a request by a new token of this person."""
    expires_at = timezone.now() + timedelta(days=days)
    _, text = make_token(user, "test", list(scopes) or ["read"], expires_at)
    return {"authorization": f"Bearer {text}"}


def get(client: Client, path: str, headers: dict[str, str], status: int = 200) -> Any:
    """Return the JSON of an answer with this status."""
    answer = client.get(f"/api/v1/{path}", headers=headers)
    assert answer.status_code == status, answer.content
    return answer.json()


def send(
    client: Client, method: str, path: str, headers: dict[str, str], body: Any, status: int
) -> Any:
    """Send a body as JSON; return the JSON of the answer, which has to have this status."""
    sent: dict[str, Any] = {} if body is None else {"data": json.dumps(body)}
    call = getattr(client, method)
    answer = call(f"/api/v1/{path}", content_type="application/json", headers=headers, **sent)
    assert answer.status_code == status, answer.content
    return json.loads(answer.content) if answer.content else None
