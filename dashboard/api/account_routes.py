"""The person behind a token, and what it may be used for."""

from __future__ import annotations

from datetime import datetime

from ninja import Schema

from dashboard.api.problems import ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import READ
from experiments.models import ApiToken

router = Router(tags=["Account"])


class Me(Schema):
    """The person who asks."""

    username: str
    role: str
    scopes: list[str]
    expires_at: datetime | None


@router.get("me", auth=READ, response={200: Me, 401: ProblemSchema})
def read_me(request: ApiRequest) -> Me:
    """Return who asks, and by what token."""
    token = request.auth if isinstance(request.auth, ApiToken) else None
    return Me(
        username=request.user.username,
        role=str(request.user.role),
        scopes=list(token.scopes) if token else ["read"],
        expires_at=token.expires_at if token else None,
    )
