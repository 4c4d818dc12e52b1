"""The parameters of `command` for runs over several jobs: programs that write checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runners.workloads.parameters import Parameter

GROUP = "Several jobs for one run"
PLACEHOLDER = "{checkpoints}"
GO_ON = ("recorder", "nothing")
"""Result sources whose numbers can be those of all jobs."""

SEVERAL_JOBS = (
    Parameter(
        name="segments",
        group=GROUP,
        type="integer",
        default=1,
        minimum=1,
        maximum=100,
        unit="jobs",
        label="Jobs of a run, at most",
        help="With more than 1, the program keeps checkpoints in {checkpoints} ($TARE_CHECKPOINTS),"
        " and a further job on the same node starts it again where it ended with exit code 75, by "
        "the signal below, or at the time limit.",
    ),
    Parameter(
        name="notice_signal",
        group=GROUP,
        type="choice",
        default="TERM",
        choices=("TERM", "USR1"),
        label="Signal before the time limit",
        help="The program gets it once, and writes its last checkpoint.",
    ),
    Parameter(
        name="notice_seconds",
        group=GROUP,
        type="integer",
        default=60,
        minimum=1,
        maximum=3600,
        unit="s",
        label="So long before it",
        help="Long enough for the program to end its step and to write a checkpoint.",
    ),
)


def find_job_problems(cleaned: Mapping[str, Any]) -> dict[str, str]:
    """Return why parameters of `command` do not go with their number of jobs, by name."""
    if cleaned["segments"] == 1:
        if any(PLACEHOLDER in word for word in cleaned["argv"]):
            return {"argv": "has {checkpoints} in it: allow the run more than one job"}
        return {}
    if cleaned["read"] not in GO_ON:
        why = (
            "cannot be more than 1 where numbers are read from what the program prints or from a "
            "file, which are those of its last job alone: let it report by the recorder, which "
            "goes on, or read nothing"
        )
    elif cleaned["recorded"] == "outside":
        why = "cannot be more than 1 where the run is recorded outside: record it inside"
    elif cleaned["processes"] != "one":
        why = (
            "cannot be more than 1 where Tare starts several processes: start one, which may start "
            "others itself, as torchrun does"
        )
    else:
        return {}
    return {"segments": why}


def explain_short_limit(parameters: Mapping[str, Any], limit_seconds: int) -> str:
    """Return why a run over several jobs has no time before its signal; "" if it has.

    The text goes on after the name of its workload.
    """
    notice = parameters.get("notice_seconds", 0)
    if int(parameters.get("segments", 1)) == 1 or not notice or notice < limit_seconds:
        return ""
    return (
        f"gets its signal {notice} s before its time limit of {limit_seconds} s, which leaves no "
        "time to run: make the limit longer, or send the signal later."
    )
