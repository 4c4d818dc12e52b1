"""The kinds of failure: no answer, a refusal, or a refusal for now."""

from typing import Literal

Kind = Literal[
    "host name",  # the name is unknown
    "unreachable",  # nobody listens there, or the connection broke
    "host key",  # the host is not the one that was pinned
    "key refused",  # our key does not open the account
    "passphrase",  # missing or wrong
    "certificate",  # of another key, expired, or not valid yet
    "forced command",  # it does not let our key do this
    "time-out",  # no answer in time
    "sessions",  # too many sessions at once
    "connection limit",  # the caller allows itself no further connection now
    "disk full",  # no space or quota left on the cluster
    "work directory",  # missing, or not to be written to
    "set-up",  # the cluster's own entry is not complete
    "busy",  # the scheduler does not answer or takes no more jobs now
    "Tare itself failed",  # an unexpected error: a mistake in Tare, or an unreachable database
    "partition",  # unknown, closed, or not for this account
    "account",  # unknown, or without the right to this partition or QOS
    "limit",  # the site takes no more jobs of this account now
    "nodes",  # none has the requested resources
    "refused",  # any other refusal that is not known to be the job's own fault
]
Scope = Literal[
    "site",  # every job would get this answer
    "partition",  # every job of this partition, account and QOS
    "request",  # jobs that request the same
]


class TryAgain(Exception):
    """The other side did not answer or cannot now. Never changes a state; worth trying later."""

    def __init__(self, message: str, *, kind: Kind) -> None:
        super().__init__(message)
        self.kind = kind


class NotNow(TryAgain):
    """The site takes no job now, which is not the job's fault. `scope`: which jobs it concerns.

    The job has not been submitted. Submitting such jobs pauses; all else goes on. `details` is the
    raw message, where this one is shorter.
    """

    def __init__(self, message: str, *, kind: Kind, scope: Scope, details: str = "") -> None:
        super().__init__(message, kind=kind)
        self.scope = scope
        self.details = details


class Refused(Exception):
    """The other side refused; the message is its own. Trying again is no use.

    `details` is the raw message, where this one is shorter.
    """

    def __init__(self, message: object = "", *, details: str = "") -> None:
        super().__init__(message)
        self.details = details
