"""The two kinds of failure: nobody answered, or the answer was no."""

from typing import Literal

Kind = Literal[
    "host name",  # the name is unknown
    "unreachable",  # nobody listens there, or the connection broke
    "host key",  # the host is not the one that was pinned
    "key refused",  # our key does not open the account
    "passphrase",  # missing or wrong
    "certificate",  # of another key, expired, or not valid yet
    "forced command",  # what our key may do there leaves this out
    "time-out",  # no answer in time
    "sessions",  # too many sessions at once
    "disk full",  # no space or quota left on the cluster
    "set-up",  # the cluster's own entry is not complete
    "busy",  # the scheduler does not answer or takes no more jobs now
    "Tare itself failed",  # what was not expected: a mistake of ours, or a database that is away
]


class TryAgain(Exception):
    """The other side did not answer or cannot now. Never changes a state; worth trying later."""

    def __init__(self, message: str, *, kind: Kind) -> None:
        super().__init__(message)
        self.kind = kind


class Refused(Exception):
    """The other side answered no; the message holds its own words. Trying again is no use."""
