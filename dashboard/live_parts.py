"""Live parts of pages, asked for every few seconds: without news they are answered at once."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Any, Protocol

from django.http import HttpResponse, HttpResponseBase

from dashboard.middleware import MARK
from dashboard.typed_requests import OpenRequest

MOST_SECONDS = 12
"""A part is made anew after so many, news or not: it tells of the time, and of queues.

Less than `live_readings.WATCHED`: whoever looks at a run is to go on counting as one who does.
"""
View = Callable[..., HttpResponseBase]


class ReadMark(Protocol):
    """Reads what stands for all that a live part shows; None where it has to be made anew."""

    def __call__(self, request: Any, *args: Any, **kwargs: Any) -> str | None: ...


def answer_news_only(read_mark: ReadMark) -> Callable[[View], View]:
    """Return a decorator of views: a live part with the mark that its page has is not made.

    The answer is 204 then, with which the part stays as it is. `static/js/page.js` sends back the
    header with which the part was answered; a forged one keeps its own page from news alone.
    """

    def decorated(view: View) -> View:
        @wraps(view)
        def checked(request: OpenRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            # Before the view reads anything: what changes meanwhile is news the next time.
            mark = read_mark(request, *args, **kwargs) if request.htmx else None
            if mark is None:
                return view(request, *args, **kwargs)
            mark = _add_reader(mark, request)
            if _is_fresh(request.headers.get(MARK, ""), mark):
                return HttpResponse(status=HTTPStatus.NO_CONTENT)
            response = view(request, *args, **kwargs)
            if response.status_code in (HTTPStatus.OK, HTTPStatus.NO_CONTENT):
                response[MARK] = f"{mark}.{int(time.time())}"
            return response

        return checked

    return decorated


def keep_read(request: OpenRequest, row: Any) -> None:
    """Keep what was read together with its mark: the view takes it, and reads it no second time."""
    request.read_with_mark = row


def take_read(request: OpenRequest) -> Any:
    """Return what was read together with the mark; None where nothing was, or it is hidden."""
    return getattr(request, "read_with_mark", None)


def _add_reader(mark: str, request: OpenRequest) -> str:
    """Return a mark that is of one reader in one role, and of one address."""
    user: Any = request.user
    reader = [user.pk, getattr(user, "role", ""), sorted(getattr(user, "links", ()))]
    parts = repr([mark, reader, request.get_full_path()])
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


def _is_fresh(shown: str, mark: str) -> bool:
    """Return whether a page shows what has this mark, and has been made lately."""
    known, _, made_at = shown.partition(".")
    if known != mark or not (made_at.isdecimal() and len(made_at) < 12):
        return False
    return 0 <= time.time() - int(made_at) < MOST_SECONDS
