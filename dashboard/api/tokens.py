"""Who asks: by a token with its scopes or, to read alone, by the session of a browser."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja.security import HttpBearer

from dashboard.api.limits import refuse_wrong_tokens
from dashboard.api.problems import Problem
from experiments.models import ApiToken, User
from experiments.models.api_token import PREFIX, Scope

TOKEN = re.compile(PREFIX + r"[A-Za-z0-9_-]{43}", re.ASCII)
"""How tokens are spelled: nothing else is looked up."""
UNKNOWN = (
    "This token opens nothing: it is wrong, expired or withdrawn, or its owner is out of service."
)


class TokenAuth(HttpBearer):
    """A token that allows `scope`; its owner is the request's user, as on pages."""

    def __init__(self, scope: str) -> None:
        super().__init__()
        self.scope = scope

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken:
        """Return the token. Raises Problem where it opens nothing, or not this."""
        row = ApiToken.objects.find(token) if TOKEN.fullmatch(token) else None
        if row is None:
            refuse_wrong_tokens(request)
            headers = {"WWW-Authenticate": 'Bearer realm="Tare", error="invalid_token"'}
            raise Problem(HTTPStatus.UNAUTHORIZED, UNKNOWN, headers=headers)
        if not row.allows(self.scope):
            has = ", ".join(row.scopes)
            raise Problem(
                HTTPStatus.FORBIDDEN,
                f"This token allows: {has}. This needs a token with the scope “{self.scope}”.",
            )
        row.note_use(timezone.now())
        request.user = row.owner
        return row


def read_session(request: HttpRequest) -> Any:
    """Return the person who is logged in in this browser, to read alone: forms of other sites
    could otherwise send something in their name.
    """
    user = request.user
    return user if request.method == "GET" and isinstance(user, User) and user.is_active else None


READ = [TokenAuth(Scope.READ), read_session]
EXPERIMENTS = TokenAuth(Scope.EXPERIMENTS)
CATALOGUE = TokenAuth(Scope.CATALOGUE)
CLUSTERS = TokenAuth(Scope.CLUSTERS)
