"""Lists of the API: some rows at a time by a cursor, and of each the fields that were asked for."""

from __future__ import annotations

import base64
import binascii
import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from http import HTTPStatus
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse, JsonResponse
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag
from ninja import Schema

from dashboard.api.problems import FieldProblem, Problem
from dashboard.api.requests import ApiRequest
from dashboard.lists import RowGone

USUAL, MOST = 100, 1000
Take = Callable[[int | None, int], list[int]]
"""Returns so many keys, those behind the row with the given key."""


def read_cursor(text: str) -> int | None:
    """Return the key after which the list goes on; None for its beginning. Raises Problem."""
    if not text:
        return None
    try:
        value = json.loads(base64.urlsafe_b64decode(text.encode()))
    except (ValueError, binascii.Error, RecursionError):
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


def refuse_columns(unknown: Iterable[str], known: Sequence[str]) -> None:
    """Raise Problem for columns that a list does not have, with the names of similar ones."""
    problems = []
    for key in unknown:
        similar = difflib.get_close_matches(key[:100], known, n=1)
        hint = f" Did you mean “{similar[0]}”?" if similar else ""
        message = f"There is no column “{key[:60]}”.{hint}"
        problems.append(FieldProblem("query.column", message))
    if problems:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "Columns that are not there.", problems)


def send_list(
    request: ApiRequest,
    rows: QuerySet[Any],
    schema: type[Schema],
    describe: Callable[[Sequence[Any]], Iterable[Schema | Mapping[str, Any]]],
    *,
    limit: int,
    cursor: str,
    fields: str,
    take_keys: Take | None = None,
    read: QuerySet[Any] | None = None,
) -> HttpResponse:
    """Return a part of a list and the address of the next one.

    `take_keys` returns the keys in another order than that of the newest row first. `read` has all
    rows without asking for rights once more, as those of the keys have been asked for: PostgreSQL
    takes longer to plan one statement of ten tables than to answer two of five. What `describe`
    returns as dictionaries is not checked by the schema once more.
    """
    names, after = choose_fields(schema, fields), read_cursor(cursor)
    if take_keys is None:
        ordered = rows.order_by("-pk")
        ordered = ordered if after is None else ordered.filter(pk__lt=after)
        keys = list(ordered.values_list("pk", flat=True)[: limit + 1])
    else:
        keys = _take(take_keys, after, limit + 1)
    readable = rows if read is None else read
    by_key = {_get_key(row): row for row in readable.filter(pk__in=keys[:limit]).order_by()}
    shown = [by_key[key] for key in keys[:limit] if key in by_key]
    include = set(names) if names else None
    items = [_cut(row, include) for row in describe(shown)]
    following = None
    if len(keys) > limit:
        query = request.GET.copy()
        query["cursor"] = write_cursor(keys[limit - 1])
        following = f"{request.path}?{query.urlencode()}"
    content = {"items": items, "next": following}
    return JsonResponse(content, json_dumps_params={"allow_nan": False})


def _get_key(row: Any) -> int:
    key: int = row["pk"] if isinstance(row, dict) else row.pk
    return key


def _cut(row: Schema | Mapping[str, Any], include: set[str] | None) -> Mapping[str, Any]:
    if isinstance(row, Schema):
        return row.model_dump(mode="json", include=include)
    return row if include is None else {name: row[name] for name in row if name in include}


def _take(take_keys: Take, after: int | None, count: int) -> list[int]:
    try:
        return take_keys(after, count)
    except RowGone as error:
        message = "The row after which the list should go on is no longer there."
        problems = [FieldProblem("query.cursor", message)]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "Begin the list anew.", problems) from error


def send_row(request: ApiRequest, content: Mapping[str, Any]) -> HttpResponse:
    """Return one row with its ETag, or 304 where the program has it already."""
    answer = JsonResponse(content, json_dumps_params={"allow_nan": False})
    etag = quote_etag(sha256(answer.content).hexdigest()[:32])
    answer["ETag"] = etag
    return get_conditional_response(request, etag=etag, response=answer) or answer


def send_content(
    request: ApiRequest, content: Schema, status: HTTPStatus = HTTPStatus.OK
) -> HttpResponse:
    """Return one row as a schema describes it; with another status where a request made it so."""
    answer = send_row(request, content.model_dump(mode="json"))
    if status != HTTPStatus.OK:
        answer.status_code = status
    return answer
