"""How many long files the web server writes at once, so that threads are left for pages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

MOST_AT_ONCE = 2
"""Of the four threads that a process of the web server has."""
RETRY_SECONDS = 30
UNAVAILABLE = 503
View = Callable[..., HttpResponseBase]

# Free places. No lock: the collector may end a `Place` while this thread takes another one.
_free = deque(range(MOST_AT_ONCE))


def limit_exports(view: View) -> View:
    """Have a view send its file only while fewer than `MOST_AT_ONCE` others are being sent.

    Otherwise it answers 503, with a sentence and when to try again. The place is free again after
    the last byte, and when the reader goes away before it.
    """

    @wraps(view)
    def limited(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return send_within_limit(request, lambda: view(request, *args, **kwargs))

    return limited


def send_within_limit(
    request: HttpRequest, make_response: Callable[[], HttpResponseBase]
) -> HttpResponseBase:
    """Return the response once there is a place for it, or 503 with a sentence."""
    try:
        place = Place(_free)
    except IndexError:
        refusal = render(request, "503.html", status=UNAVAILABLE)
        refusal["Retry-After"] = str(RETRY_SECONDS)
        return refusal
    try:
        response: Any = make_response()
    except BaseException:
        place.leave()
        raise
    if response.streaming:
        response.streaming_content = PiecesWithPlace(response.streaming_content, place)
    else:
        place.leave()
    return response  # type: ignore[no-any-return]


class Place:
    """A place among the files that are being sent: one of the free ones, until it is left."""

    def __init__(self, free: deque[int]) -> None:
        """Take a place; IndexError where none is free."""
        self._taken: list[int] = []
        self._free = free
        self._taken.append(free.pop())

    def leave(self) -> None:
        """Let another file have the place; nothing happens where it has been left."""
        with suppress(IndexError):
            self._free.append(self._taken.pop())

    __del__ = leave  # of a response that nobody closed


class PiecesWithPlace:
    """The pieces of a file, after the last of which its place is free."""

    def __init__(self, pieces: Any, place: Place) -> None:
        self._pieces = iter(pieces)
        self._place = place

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            piece: bytes = next(self._pieces)
        except BaseException:  # its end, or an error
            self._place.leave()
            raise
        return piece

    def close(self) -> None:
        self._place.leave()
