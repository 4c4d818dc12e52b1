"""How many requests are answered each minute, counted for all web processes together.

The counts lie in Valkey, as each process has a memory of its own. While Valkey is away, requests
are answered and nothing is counted: the limits protect the site from programs that have gone wild,
and a site without its queue is no reason to refuse people.
"""

from __future__ import annotations

import logging
import time
from http import HTTPStatus

from django.core.cache import caches
from django.http import HttpRequest
from ninja.throttling import BaseThrottle
from redis.exceptions import RedisError

from dashboard.access.log_in import find_client_address
from dashboard.api.problems import Problem
from experiments import valkey_pause
from experiments.models import ApiToken

WINDOW_SECONDS = 60
REQUESTS, LAUNCHES, WRONG_TOKENS = 600, 30, 60
"""Each minute: requests by one token; what one person launches or has computed; and wrong tokens
from one address.
"""

logger = logging.getLogger(__name__)


def count_request(key: str) -> int:
    """Return how many requests with this key there were in this minute, this one among them.

    0: nobody knows, as Valkey does not answer.
    """
    if valkey_pause.is_paused():
        return 0
    counts = caches["limits"]
    numbered = f"{key}:{int(time.time() // WINDOW_SECONDS)}"
    try:
        if counts.add(numbered, 1, timeout=2 * WINDOW_SECONDS):
            return 1
        return int(counts.incr(numbered))
    except ValueError:  # Valkey was emptied between both
        return 1
    except RedisError as error:
        valkey_pause.begin_pause()
        logger.warning("Requests of the API are not counted: Valkey does not answer (%s)", error)
        return 0


def count_seconds_left() -> int:
    """Return after how many seconds the next minute begins, at least 1."""
    return WINDOW_SECONDS - int(time.time() % WINDOW_SECONDS)


def refuse_wrong_tokens(request: HttpRequest) -> None:
    """Count a token that opens nothing. Raises Problem where its address sent too many of them.

    Tokens that are right are answered all the same: colleagues behind one address do not pay for
    a program with an old token. Guessing is no danger, as a token has 256 random bits.
    """
    address = find_client_address(request) or "unknown"
    if count_request(f"wrong:{address}") > WRONG_TOKENS:
        seconds = count_seconds_left()
        raise Problem(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"Too many wrong tokens came from this address: try again in {seconds} s, with another "
            "token. /account/tokens/ makes one.",
            headers={"Retry-After": str(seconds)},
        )


class Limit(BaseThrottle):
    """At most `most` requests a minute by one token, or by one person with all their tokens."""

    def __init__(self, name: str, most: int, *, by_person: bool) -> None:
        self.name, self.most, self.by_person = name, most, by_person

    def allow_request(self, request: HttpRequest) -> bool:
        """Return whether the request may be answered."""
        token = getattr(request, "auth", None)
        if isinstance(token, ApiToken) and not self.by_person:
            key = f"{self.name}:token:{token.pk}"
        else:
            key = f"{self.name}:person:{request.user.pk}"
        return count_request(key) <= self.most

    def wait(self) -> float:
        """Return after how many seconds requests are answered again."""
        return float(count_seconds_left())


EACH_MINUTE = Limit("requests", REQUESTS, by_person=False)
USUAL: list[BaseThrottle] = [EACH_MINUTE]
"""What holds for each address of the API."""
HEAVY: list[BaseThrottle] = [EACH_MINUTE, Limit("launches", LAUNCHES, by_person=True)]
"""What holds for what launches something or computes for long: `throttle=HEAVY`. It is counted by
person, as another token is no right to more.
"""
