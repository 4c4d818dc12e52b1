"""The reasons why a scheduler lets a job wait, what they mean, and which of them never end."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Waiting:
    """One or more reasons, by a pattern. Without `advice` they end by themselves, with patience."""

    pattern: str
    meaning: str
    advice: str = ""
    """What a person can do about a reason that does not end by itself; no full stop."""
    next: str = ""
    """How a reason that others have to end does so; no full stop."""


REQUEST_LESS = "request less, or choose another partition or QOS"
ASK = "ask the site"
GIVEN_BACK = (
    "it starts by itself when the site gives the node back; sinfo -R on the login node prints why "
    "the site has taken it"
)
# Slurm's "Job Reason Codes", as squeue prints them. The first match decides.
REASONS: tuple[Waiting, ...] = (
    Waiting(r"Resources", "waits until enough nodes or GPUs are free"),
    Waiting(r"Priority", "jobs of higher priority go first"),
    # --- Limits: of one job, which no waiting lifts; of time that is used up; of all jobs together
    Waiting(
        r"(QOS|Assoc)(Max|Min)\w*Per(Job|Node)\w*|QOSMin\w*|(QOS|Assoc)MaxWall\w*|Max\w*PerJob\w*",
        "its account or quality of service (QOS) does not allow one job so much, or so little",
        REQUEST_LESS,
    ),
    Waiting(
        r"(QOS|Assoc)(?!\w*Run)\w*Minutes\w*|QOSUsageThreshold",
        "the time that its account or quality of service (QOS) may use is used up",
        "ask the site for more, or choose another account",
    ),
    Waiting(r"InvalidAccount|InvalidQOS", "its account or QOS is not valid", ASK),
    Waiting(
        r"AccountNotAllowed|QOSNotAllowed|AssocNotAllowed",
        "its account or QOS may not use this partition",
        "choose another partition or account",
    ),
    Waiting(r"QOS\w*", "a limit of its quality of service (QOS) is reached"),
    Waiting(r"Assoc\w*|AccountingPolicy", "a limit of its account is reached"),
    Waiting(r"Max\w*Per\w*|MaxSubmit\w*", "a limit on jobs per account or user is reached"),
    # --- Nodes and partitions
    Waiting(
        r"ReqNodeNotAvail\b.*|Nodes required for job are DOWN\b.*",
        "a node that it needs is down, drained or reserved",
        next=GIVEN_BACK,
    ),
    Waiting(r"NodeDown", "a node that it needs is down", next=GIVEN_BACK),
    Waiting(r"PartitionDown|PartitionInactive", "its partition takes no jobs at present"),
    Waiting(r"PartitionNodeLimit", "it asks for more nodes than its partition gives", REQUEST_LESS),
    Waiting(r"PartitionTimeLimit", "it asks for more time than its partition gives", REQUEST_LESS),
    Waiting(r"PartitionConfig", "its partition does not give what it asks for", REQUEST_LESS),
    Waiting(r"BadConstraints", "no node has what it asks for", REQUEST_LESS),
    Waiting(r"ReservationDeleted", "its reservation was deleted", ASK),
    Waiting(r"Reservation\w*", "waits for a reservation"),
    Waiting(r"Licenses", "waits for a licence"),
    Waiting(r"Prolog|Cleaning", "the node is being prepared"),
    # --- Other jobs, times and people
    Waiting(
        r"DependencyNeverSatisfied",
        "waits for another job, which has ended in another way than it should",
        "cancel the experiment and launch a copy, or have the site lift the dependency",
    ),
    Waiting(r"Dependency\w*", "waits for another job"),
    Waiting(r"BeginTime", "its time to begin has not come"),
    Waiting(r"JobArrayTaskLimit", "a limit on tasks of job arrays is reached"),
    Waiting(
        r"JobHeldUser",
        "it is held by its user",
        "release it on the login node (scontrol release) or cancel the experiment",
    ),
    Waiting(r"JobHeldAdmin", "it is held by an administrator", ASK),
    Waiting(r"JobHoldMaxRequeue", "it was put back too often, and is held", ASK),
    Waiting(
        r".*requeued held\b.*",
        "its start has failed, and it is held",
        "ask the site about the node, then release it (scontrol release) or cancel the experiment",
    ),
)
HELD = Waiting(
    r"h[A-Za-z]*",
    "it is held, or waits for another job",
    "if it is held, release it on the login node (qrls) or cancel the experiment",
)
"""Grid Engine's states of what is held: hqw, hRwq. It gives no reason."""


def explain_reason(state: str) -> str:
    """Return the meaning of a scheduler's "PENDING Resources", with its own reason in brackets.

    What does not end by itself is followed by what a person can do. An unknown reason is returned
    as it is. Empty if there is no reason beside the state.
    """
    native, _, reason = state.strip().partition(" ")
    reason = reason.strip()
    if not reason:
        if re.fullmatch(HELD.pattern, native):
            return _join(HELD, native)
        return "" if native.upper() in ("PENDING", "RUNNING", "QW", "R") else native
    for waiting in REASONS:
        if re.fullmatch(waiting.pattern, reason):
            return _join(waiting, reason)
    return f"{native}: {reason}"


def _join(waiting: Waiting, reason: str) -> str:
    text = f"{waiting.meaning} ({reason})"
    if waiting.next:
        return f"{text}; {waiting.next}"
    return f"{text}; it will not start by itself: {waiting.advice}" if waiting.advice else text
