"""Problems of requests, as the JSON document of RFC 9457."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

CONTENT_TYPE = "application/problem+json"


def describe_problem(
    status: HTTPStatus,
    detail: str,
    problems: Sequence[dict[str, Any]] = (),
    kind: str = "about:blank",
) -> dict[str, Any]:
    """Return the document; `detail` is a sentence for a person, `problems` name their fields."""
    return {
        "type": kind,
        "title": status.phrase,
        "status": int(status),
        "detail": detail,
        "problems": list(problems),
    }
