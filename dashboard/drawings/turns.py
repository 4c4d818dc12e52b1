"""Turns at drawing: so many figures at a time that threads are left for all other requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition


class TooMany(Exception):
    """As many figures are being drawn, and waited for, as may be."""


class Turns:
    """Who draws and who waits, in one process of the web server.

    Each takes a thread: `at_once` of them draw, `for_visitors` of these for visitors without an
    account, and `waiting` more wait until they may.
    """

    def __init__(self, at_once: int, for_visitors: int, waiting: int) -> None:
        self._at_once, self._for_visitors, self._most_waiting = at_once, for_visitors, waiting
        self._drawing = self._visitors = 0
        self.waiting = 0
        self._changed = Condition()

    @contextmanager
    def take(self, *, is_visitor: bool, seconds: float) -> Iterator[None]:
        """Wait for a turn at most so long and hold it; TooMany where none is to be had."""
        with self._changed:
            if not self._is_free(is_visitor):
                self._wait(is_visitor, seconds)
            self._drawing += 1
            self._visitors += is_visitor
        try:
            yield
        finally:
            with self._changed:
                self._drawing -= 1
                self._visitors -= is_visitor
                self._changed.notify_all()

    def _wait(self, is_visitor: bool, seconds: float) -> None:
        if self.waiting >= self._most_waiting:
            raise TooMany
        self.waiting += 1
        try:
            if not self._changed.wait_for(lambda: self._is_free(is_visitor), seconds):
                raise TooMany
        finally:
            self.waiting -= 1

    def _is_free(self, is_visitor: bool) -> bool:
        has_room = self._drawing < self._at_once
        return has_room and not (is_visitor and self._visitors >= self._for_visitors)
