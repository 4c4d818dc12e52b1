"""API tokens by the API: one's own and, for site administrators, everybody's; never their texts.

None is made here: a token that makes another one would outlive its own withdrawal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Query, Schema

from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.list_parts import MOST, USUAL, send_list
from dashboard.api.problems import ProblemSchema, refuse
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import EXPERIMENTS, READ
from experiments.access.api_token_actions import list_tokens, withdraw_token
from experiments.access.permissions import why_not_see_all_tokens
from experiments.models import ApiToken

router = Router(tags=["Account"])


class TokenSchema(Schema):
    """A token that is not withdrawn, by its name and its last characters."""

    id: int
    name: str
    ending: str
    owner: str
    scopes: list[str]
    made_at: datetime
    expires_at: datetime
    used_at: datetime | None


class TokenList(Schema):
    """A part of the list of tokens."""

    items: list[TokenSchema]
    next: str | None


def _describe(rows: Sequence[ApiToken]) -> Iterable[TokenSchema]:
    names = TokenSchema.model_fields.keys() - {"id", "owner"}
    for row in rows:
        facts = {name: getattr(row, name) for name in names}
        yield TokenSchema(**facts, id=row.pk, owner=str(row.owner))


@router.get("tokens", auth=READ, response={200: TokenList, 401: ProblemSchema, 422: ProblemSchema})
def list_api_tokens(
    request: ApiRequest,
    everybody: Annotated[bool, Query(description="For site administrators: of all.")] = False,
    limit: Annotated[int, Query(ge=1, le=MOST)] = USUAL,
    cursor: str = "",
    fields: str = "",
) -> HttpResponse:
    """List one's own tokens or everybody's, the newest first."""
    if everybody:
        refuse(why_not_see_all_tokens(request.user))
    rows = list_tokens(request.user, of_all=everybody).select_related("owner")
    return send_list(
        request, rows, TokenSchema, _describe, limit=limit, cursor=cursor, fields=fields
    )


@router.delete("tokens/{pk}", auth=EXPERIMENTS, response={204: None, **REFUSED})
def withdraw_api_token(request: ApiRequest, pk: Key) -> HttpResponse:
    """Withdraw a token of one's own or, as a site administrator, of anybody; it may be this one."""
    row = get_object_or_404(list_tokens(request.user, of_all=True), pk=pk)
    withdraw_token(row, request.user)
    return HttpResponse(status=HTTPStatus.NO_CONTENT)
