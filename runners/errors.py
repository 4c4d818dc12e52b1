"""The kinds of failure: nobody answered, the answer was no, or it was no for now."""

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
    "work directory",  # missing, or not to be written to
    "set-up",  # the cluster's own entry is not complete
    "busy",  # the scheduler does not answer or takes no more jobs now
    "Tare itself failed",  # what was not expected: a mistake of ours, or a database that is away
    "partition",  # unknown, closed, or not for this account
    "account",  # unknown, or without the right to this partition or QOS
    "limit",  # the site takes no more jobs of this account now
    "nodes",  # none that has what is asked for
    "refused",  # another no, which is not known to be the job's own fault
]
Scope = Literal[
    "site",  # every job would get this answer
    "partition",  # every job of this partition, account and QOS
    "request",  # jobs that ask for the same
]


class TryAgain(Exception):
    """The other side did not answer or cannot now. Never changes a state; worth trying later."""

    def __init__(self, message: str, *, kind: Kind) -> None:
        super().__init__(message)
        self.kind = kind


class NotNow(TryAgain):
    """The site takes no job now, and not for the job's fault. `scope`: whom else it would meet.

    The job has not been submitted. Sending pauses there; all else goes on. `details` are the raw
    words, where the message is shorter.
    """

    def __init__(self, message: str, *, kind: Kind, scope: Scope, details: str = "") -> None:
        super().__init__(message, kind=kind)
        self.scope = scope
        self.details = details


class Refused(Exception):
    """The other side answered no; the message holds its own words. Trying again is no use.

    `details` are the raw words, where the message is shorter.
    """

    def __init__(self, message: object = "", *, details: str = "") -> None:
        super().__init__(message)
        self.details = details
