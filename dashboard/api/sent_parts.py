"""Files and texts that come as parts of one request, for a form of a page."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from dashboard.api.form_bodies import INVALID
from dashboard.api.problems import FieldProblem, Problem
from dashboard.api.requests import ApiRequest

PARTS = "multipart/form-data"
WRONG_KIND = f"Send it as {PARTS}."
Json = dict[str, Any]
FILE: Json = {"type": "string", "format": "binary"}
TEXT: Json = {}
"""Without a type: parts are texts, whatever a program meant, and a form judges them."""


def describe_parts(parts: Mapping[str, Json], *, required: tuple[str, ...]) -> Json:
    """Return what a route says of its parts by `openapi_extra`."""
    schema = {"type": "object", "required": list(required), "properties": dict(parts)}
    content = {PARTS: {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


def require_parts(request: ApiRequest, parts: Mapping[str, Json]) -> None:
    """Raise Problem where a request does not come in parts, or has one that is not known."""
    if request.content_type != PARTS:
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, WRONG_KIND)
    problems = []
    for name in sorted((set(request.POST) | set(request.FILES)) - parts.keys())[:20]:
        similar = difflib.get_close_matches(name[:50], parts, n=1)
        hint = f" Did you mean “{similar[0]}”?" if similar else ""
        known = ", ".join(parts)
        message = f"There is no part “{name[:50]}”.{hint} There are: {known}."
        problems.append(FieldProblem(name[:50], message))
    if problems:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)
