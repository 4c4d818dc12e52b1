"""The jobs that wait in partitions of Slurm, in the order of their priorities. No I/O."""

from __future__ import annotations

import re

from runners.errors import TryAgain
from runners.schedulers.base import PendingJobs
from runners.transports.base import Completed
from runners.untrusted import clean_text

MOST_JOBS = 20_000
"""Of one answer. Of a longer queue the rest is not sent."""
MOST_BYTES = 50 * MOST_JOBS
"""Slurm prints up to 22 bytes for a job, 33 for the task of an array."""

# Prints priority and id of each waiting job of the partitions $1, then squeue's exit code. An array
# has a line for each task that waits; squeue expands them itself, the controller does not.
PENDING = f"""{{
    squeue --noheader --states=PENDING --array --partition="$1" --sort=-p,i --format='%Q|%i'
    echo "exit $?"
}} | head -n {MOST_JOBS + 1} | head -c {MOST_BYTES}
"""
PARTITIONS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(,[A-Za-z0-9][A-Za-z0-9_.-]*)*")
"""Names that the forced command lets through, too."""
# 123 is a job, 123_4 a task of an array, 123_[5-9%2] several that squeue has not taken apart, and
# 123+1 a component of a heterogeneous job.
JOB = re.compile(
    r"(?P<priority>[0-9]{1,10})\|(?P<id>[0-9]{1,10})"
    r"(?P<part>_[0-9]{1,10}|_\[[0-9,%.:-]{1,4096}\]?)?(?:\+[0-9]{1,6})?"
)
EXIT = re.compile(r"exit ([0-9]{1,3})")


def build_pending_command(partitions: str) -> list[str]:
    """Return the command that lists the jobs that wait in a partition, or in several with commas.

    Raises TryAgain for a name that the command does not take.
    """
    if not PARTITIONS.fullmatch(partitions):
        raise TryAgain(f"No queue is asked for by the name {partitions!r}.", kind="busy")
    return ["sh", "-c", PENDING, "pending", partitions]


def parse_pending(done: Completed) -> PendingJobs:
    """Return the jobs in the output of PENDING, without those that are held: their priority is 0.

    Each task of an array counts, and a heterogeneous job once. Raises TryAgain unless each line is
    a job: places that are counted from half an answer are wrong.
    """
    lines = [line.strip() for line in clean_text(done.stdout).splitlines() if line.strip()]
    end = EXIT.fullmatch(lines[-1]) if lines else None
    if end and end[1] != "0":
        message = clean_text(done.stderr).strip()[:500] or f"return code {end[1]}"
        raise TryAgain(f"Slurm does not answer: {message}", kind="busy")
    if end:
        lines.pop()
    elif len(lines) <= MOST_JOBS:
        raise TryAgain("Slurm's answer about its queue was cut short.", kind="unreachable")
    ids: dict[str, None] = {}
    for line in lines[:MOST_JOBS]:
        job = JOB.fullmatch(line)
        if job is None:
            raise TryAgain(f"This is no answer of Slurm's: {line[:200]}", kind="busy")
        if int(job["priority"]):
            ids[job["id"] + (job["part"] or "")] = None
    return PendingJobs(tuple(ids), is_all=end is not None)
