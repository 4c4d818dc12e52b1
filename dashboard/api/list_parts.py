"""Lists of the API: some rows at a time by a cursor, and of each the fields that were asked for."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from http import HTTPStatus
from typing import Any

from django.db.models import Model, QuerySet
from django.http import HttpResponse, JsonResponse
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag
from ninja import Schema

from dashboard.api.problems import FieldProblem, Problem
from dashboard.api.requests import ApiRequest

USUAL, MOST = 100, 1000


def read_cursor(text: str) -> int | None:
    """Return the key after which the list goes on; None for its beginning. Raises Problem."""
    if not text:
        return None
    try:
        value = json.loads(base64.urlsafe_b64decode(text.encode()))
    except (ValueError, binascii.Error):
        value = None
    if type(value) is not int or not 0 <= value < 2**63:
        problems = [FieldProblem("query.cursor", "It is no cursor of this list.")]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "Begin the list anew.", problems)
    return value


def write_cursor(key: int) -> str:
    """Return the cursor of a list that goes on after the row with this key."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()


def choose_fields(schema: type[Schema], text: str) -> list[str] | None:
    """Return the fields of a sparse answer, `id` always among them; None: all. Raises Problem."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        return None
    if unknown := [name for name in names if name not in schema.model_fields]:
        known = ", ".join(schema.model_fields)
        problems = [
            FieldProblem("query.fields", f"There is no field “{name[:50]}”; there are {known}.")
            for name in unknown
        ]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "Fields that are not there.", problems)
    return ["id", *names]


def send_list(
    request: ApiRequest,
    rows: QuerySet[Any],
    schema: type[Schema],
    describe: Callable[[Sequence[Any]], Iterable[Schema]],
    *,
    limit: int,
    cursor: str,
    fields: str,
) -> HttpResponse:
    """Return a part of a list, the newest row first, and the address of the next part."""
    names, after = choose_fields(schema, fields), read_cursor(cursor)
    ordered = rows.order_by("-pk")
    if after is not None:
        ordered = ordered.filter(pk__lt=after)
    found: list[Model] = list(ordered[: limit + 1])
    shown = found[:limit]
    include = set(names) if names else None
    items = [row.model_dump(mode="json", include=include) for row in describe(shown)]
    following = None
    if len(found) > limit:
        query = request.GET.copy()
        query["cursor"] = write_cursor(shown[-1].pk)
        following = f"{request.path}?{query.urlencode()}"
    return JsonResponse({"items": items, "next": following})


def send_row(request: ApiRequest, content: Mapping[str, Any]) -> HttpResponse:
    """Return one row with its ETag, or 304 where the program has it already."""
    answer = JsonResponse(content, json_dumps_params={"allow_nan": False})
    etag = quote_etag(sha256(answer.content).hexdigest()[:32])
    answer["ETag"] = etag
    return get_conditional_response(request, etag=etag, response=answer) or answer
