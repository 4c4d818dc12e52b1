"""What is sent again when no answer came: only what cannot be done twice."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from time import sleep
from typing import TypeVar

from tare_client.errors import NotReachable, NotTrusted, Refused, TareError

Value = TypeVar("Value")
PASSING = (429, 500, 502, 503, 504)
"""Statuses of a site that may answer otherwise a moment later."""
CONFLICT = 409


@dataclass(frozen=True)
class Patience:
    """How often something is sent, and how long the client waits in between, in seconds."""

    attempts: int = 5
    first_pause: float = 0.5
    longest_pause: float = 90.0
    """A site that asks for a longer pause is not asked again."""

    def choose_pause(self, attempt: int, error: TareError) -> float | None:
        """Return the seconds before the next attempt; None: give up."""
        if attempt >= self.attempts:
            return None
        if isinstance(error, Refused) and error.retry_after is not None:
            return error.retry_after if error.retry_after <= self.longest_pause else None
        # Clients that were all cut off by one fault do not come back at the same moment.
        spread = 0.75 + random.random() / 2  # noqa: S311
        return float(min(self.first_pause * 2 ** (attempt - 1) * spread, self.longest_pause))


def send_with_patience(
    send: Callable[[], Value], patience: Patience, *, is_repeatable: bool
) -> Value:
    """Return what `send` returns, called again where that is safe and may help. Raises TareError.

    A request that is not repeatable is repeated after 429 alone: that says it was not done. After
    an attempt without an answer 409 means that the first one may still be at work.
    """
    attempt, unanswered = 1, False
    while True:
        try:
            return send()
        except (NotReachable, Refused) as error:
            if isinstance(error, NotReachable):
                may_pass = not isinstance(error, NotTrusted)
            elif error.status == CONFLICT:
                may_pass = unanswered or error.retry_after is not None
            else:
                may_pass = error.status in PASSING
            was_not_done = isinstance(error, Refused) and error.status == 429
            unanswered = unanswered or isinstance(error, NotReachable)
            pause = patience.choose_pause(attempt, error)
            if not may_pass or not (is_repeatable or was_not_done) or pause is None:
                raise
        attempt += 1
        sleep(pause)
