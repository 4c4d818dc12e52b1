"""Says why a job failed, by its record and by what the scheduler knows of its end."""

import re

import re2

from runners.exit_codes import describe_exit_code
from runners.records import Record
from runners.schedulers import Failure, JobEnding

# Messages of Slurm and the kernel in a job's output, for jobs that the scheduler has forgotten.
WRITTEN: tuple[tuple[Failure, str], ...] = (
    ("time-out", r".*CANCELLED AT .* DUE TO TIME LIMIT.*"),
    ("node failure", r".*CANCELLED AT .* DUE TO NODE FAILURE.*"),
    ("out of memory", r".*(oom[-_ ]?kill|out of memory|exceeded .*memory limit).*"),
    ("cancelled outside", r".*CANCELLED AT .*"),
)
NO_ROOM = r".*(No space left on device|Disk quota exceeded).*"
DUPLICATE = re.compile(r"duplicate[ _]job[ _]?id", re.IGNORECASE)
# Exit codes of a job script that could not claim its directory: see `claim` there.
NOT_BEGUN: dict[str, tuple[Failure, str]] = {
    "73": (
        "disk full",
        "the job could not write into its directory (exit code 73): the disk or the quota is full, "
        "or nothing may be written there",
    ),
    "71": (
        "failed",
        "the job's directory is on a file system without hard links (exit code 71), and nothing "
        "else says safely which copy of a job may start: choose another work directory",
    ),
}


def name_failure(record: Record, ending: JobEnding | None) -> tuple[Failure, str]:
    """Return why a job failed: its kind and a message; for a record without exit code 0."""
    if record.time_limit_reached:
        return "time-out", "the time limit was reached"
    if DUPLICATE.search(record.output_tail) or (ending and DUPLICATE.search(ending.reason)):
        return (
            "controller failure",
            "the scheduler knew two jobs by this number and ended one (Duplicate jobid): its "
            "controller had lost its state. Try the job again",
        )
    if ending and record.started_by is None:
        code = ending.exit_code.partition(":")[0]
        if code in NOT_BEGUN:
            return NOT_BEGUN[code]
    if record.started_by is None and (match := re2.search(NO_ROOM, record.output_tail)):
        return "disk full", match[0].strip()
    if ending and ending.kind and ending.kind != "failed":
        return ending.kind, _describe_ending(ending)
    # If single processes are killed for their memory, Slurm itself only reports FAILED 0:9.
    for kind, pattern in WRITTEN:
        if match := re2.search(f"(?i){pattern}", record.output_tail):
            return kind, match[0].strip()
    if ending and ending.kind:
        return ending.kind, _describe_ending(ending)
    if record.exit_code:
        return (
            "failed",
            f"the job script ended with exit code {describe_exit_code(record.exit_code)}",
        )
    scheduler_state = f" (the scheduler says {ending.native})" if ending else ""
    return "lost", f"the job left no exit code{scheduler_state}"


def _describe_ending(ending: JobEnding) -> str:
    return " ".join(filter(None, [ending.native, ending.exit_code, ending.reason]))
