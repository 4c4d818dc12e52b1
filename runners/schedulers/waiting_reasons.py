"""The reasons why a scheduler lets a job wait, and what they mean."""

from __future__ import annotations

import re

# Slurm's "Resource limits" and "Job reason codes", as squeue prints them. The first match decides.
REASONS: tuple[tuple[str, str], ...] = (
    (r"Resources", "waits until enough nodes or GPUs are free"),
    (r"Priority", "jobs of higher priority go first"),
    (r"QOS\w*", "a limit of its quality of service (QOS) is reached"),
    (r"Assoc\w*", "a limit of its account is reached"),
    (r"MaxJobs?Per\w*|MaxSubmit\w*", "a limit on jobs per account or user is reached"),
    (r"ReqNodeNotAvail\b.*", "a node that it needs is down, drained or reserved"),
    (r"NodeDown", "a node that it needs is down"),
    (r"PartitionDown|PartitionInactive", "its partition takes no jobs at present"),
    (r"PartitionNodeLimit", "it asks for more nodes than its partition gives"),
    (r"PartitionTimeLimit", "it asks for more time than its partition gives"),
    (r"Reservation\w*", "waits for a reservation"),
    (r"Licenses", "waits for a licence"),
    (r"Dependency\w*", "waits for another job"),
    (r"BeginTime", "its time to begin has not come"),
    (r"JobHeldUser", "it is held by its user"),
    (r"JobHeldAdmin", "it is held by an administrator"),
    (r"JobArrayTaskLimit", "a limit on tasks of job arrays is reached"),
    (r"BadConstraints", "no node has what it asks for"),
    (r"InvalidAccount|InvalidQOS", "its account or quality of service (QOS) is not valid"),
    (r"Prolog|Cleaning", "the node is being prepared"),
    (r"launch failed requeued held\b.*", "its start has failed, and it is held"),
)


def explain_reason(state: str) -> str:
    """Return the meaning of a scheduler's "PENDING Resources", with its own reason in brackets.

    An unknown reason is returned as it is. Empty if there is no reason beside the state.
    """
    native, _, reason = state.strip().partition(" ")
    reason = reason.strip()
    if not reason:
        return "" if native.upper() in ("PENDING", "RUNNING", "QW", "R") else native
    for pattern, meaning in REASONS:
        if re.fullmatch(pattern, reason):
            return f"{meaning} ({reason})"
    return f"{native}: {reason}"
