"""Requests with the attributes that the middleware adds, for the type checker."""

from __future__ import annotations

import sys
from typing import Any

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

from experiments.models import User

MOST_DIGITS = 18
"""More than any key has; Python itself refuses to read thousands of them."""


def is_head(request: HttpRequest) -> bool:
    """Return whether only the status and the headers of an answer are sent.

    The API calls views for HEAD with the method GET; what came from the browser stays here.
    """
    return request.META.get("REQUEST_METHOD") == "HEAD"


def parse_whole_number(text: object) -> int | None:
    """Return the number that `text` writes in decimal digits; None for anything else."""
    digits = str(text)
    return int(digits) if digits.isdecimal() and len(digits) <= MOST_DIGITS else None


def read_length(request: HttpRequest) -> int:
    """Return how many bytes a request announces, and so how many Django would read.

    Of a number with too many digits it is the largest one: nobody is to send as much.
    """
    text = str(request.META.get("CONTENT_LENGTH") or "")
    return parse_whole_number(text) or (sys.maxsize if len(text) > MOST_DIGITS else 0)


def read_posted_text(request: HttpRequest, name: str) -> str:
    """Return a posted text without blanks around it; no row can hold a NUL, which is replaced."""
    return request.POST.get(name, "").replace("\x00", "\ufffd").strip()


class OpenRequest(HttpRequest):
    """A request from anybody: visitors without an account may read such a page."""

    htmx: HtmxDetails
    written_cells: int
    """How many cells of tables behind charts its page has so far; absent before the first one."""
    read_with_mark: Any
    """What a live part shows, where its mark was read with it (dashboard/live_parts.py)."""


class Request(OpenRequest):
    """A request from somebody who has logged in, which LoginRequiredMiddleware ensures."""

    user: User
