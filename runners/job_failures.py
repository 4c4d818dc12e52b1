"""Says why a job or a run failed, by its record and by what the scheduler knows of its end.

Each answer is a reason of `runners.ends` and its evidence: who says so, in which words.
"""

import re

import re2

from runners.exit_codes import describe_exit_code
from runners.records import Record, RunRecord
from runners.schedulers import Failure, JobEnding
from runners.terminal import plain_text

# Messages of Slurm and the kernel in a job's output, for jobs that the scheduler has forgotten.
WRITTEN: tuple[tuple[Failure, str], ...] = (
    ("time-out", r".*CANCELLED AT .* DUE TO TIME LIMIT.*"),
    ("node failure", r".*CANCELLED AT .* DUE TO NODE FAILURE.*"),
    ("preempted", r".*CANCELLED AT .* DUE TO PREEMPTION.*"),
    ("requeued", r".*CANCELLED AT .* DUE TO JOB REQUEUE.*"),
    ("out of memory", r".*(oom[-_ ]?kill|out of memory|exceeded .*memory limit).*"),
    ("cancelled outside", r".*CANCELLED AT .*"),
)
NO_ROOM: tuple[tuple[Failure, str], ...] = (
    ("disk full", r".*No space left on device.*"),
    ("quota", r".*Disk quota exceeded.*"),
)
WRITTEN_UNBEGUN: tuple[tuple[Failure, str], ...] = (
    *NO_ROOM,
    ("files deleted", r"The files of this job are no longer in .*"),
)
"""What the output of a job script says that has claimed nothing: see `claim` there."""
KILLED_FOR_MEMORY = r"(?i).*(oom[-_ ]?kill|exceeded .*memory limit).*"
NO_MEMORY = r".*(MemoryError\b|OOM when allocating|Cannot allocate memory|std::bad_alloc).*"
NOT_FOUND = r"(?i).*(not found|no such file or directory).*"
DUPLICATE = re.compile(r"duplicate[ _]job[ _]?id", re.IGNORECASE)
# A second start of the job script, see `claim` there: the same job's is a requeue.
STEPPED_ASIDE = r"Job (\S+) has started these runs; job (\S+) steps aside\."
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
NO_ROOM_LEFT = "73"
"""The exit code of a job script that could not write its own: see `finish` there."""
LAST_LINES = 10
"""In as many lines at the end of a program's output its own last words are looked for."""


def name_failure(
    record: Record, ending: JobEnding | None, *, was_requeued: bool = False
) -> tuple[Failure, str]:
    """Return why a job failed: its kind and the evidence; for a record without exit code 0.

    `was_requeued`: the scheduler was seen to put it back into its queue after it had begun.
    """
    if record.time_limit_reached:
        return "time-out", "the time limit was reached"
    if record.failure.startswith("no GPU: "):
        return "no GPU", record.failure.removeprefix("no GPU: ")
    if DUPLICATE.search(record.output_tail) or (ending and DUPLICATE.search(ending.reason)):
        return (
            "controller failure",
            "the scheduler knew two jobs by this number and ended one (Duplicate jobid): its "
            "controller had lost its state",
        )
    if evidence := _find_requeue(record, was_requeued=was_requeued):
        return "requeued", evidence
    if ending and record.started_by is None:
        code = ending.exit_code.partition(":")[0]
        if code in NOT_BEGUN:
            return NOT_BEGUN[code]
    if ending and record.exit_code is None and ending.exit_code.partition(":")[0] == NO_ROOM_LEFT:
        return (
            "disk full",
            "the job could not write its last files (exit code 73): the disk or the quota was full",
        )
    if record.started_by is None and (named := _find_written(WRITTEN_UNBEGUN, record.output_tail)):
        return named
    if ending and record.started_by is None and ending.node and _is_by_the_system(ending):
        evidence = f"{_describe_ending(ending)}: its script never began, as when a prolog fails"
        return "node failure", evidence
    if ending and ending.kind and ending.kind != "failed":
        return ending.kind, _name_person(ending) or _describe_ending(ending)
    # If single processes are killed for their memory, Slurm itself only reports FAILED 0:9.
    if named := _find_written(WRITTEN, record.output_tail):
        return named
    if ending and ending.kind:
        return ending.kind, _describe_ending(ending)
    if record.exit_code:
        return (
            "failed",
            f"the job script ended with exit code {describe_exit_code(record.exit_code)}",
        )
    scheduler_state = f" ({_name_source(ending)} says {ending.native})" if ending else ""
    return "lost", f"the job left no exit code{scheduler_state}"


def name_run_failure(run: RunRecord, job: Record) -> tuple[str, str]:
    """Return why a run failed that left an exit code or named its failure: reason and evidence."""
    if run.failure:
        # "set-up failed (exit code 1): ..." is "set-up failed".
        return run.failure.partition(":")[0].partition(" (")[0][:40], run.failure
    last_lines = plain_text(run.output_tail).rstrip().split("\n")[-LAST_LINES:]
    last_line = last_lines[-1][:500] or "nothing was printed"
    cause = run.culprit or f"the program ended with exit code {describe_exit_code(run.exit_code)}"
    reason, evidence = _classify_exit(run.exit_code, last_lines, last_line, job)
    return reason, f"{cause[0].upper()}{cause[1:]}: {evidence}"


def _classify_exit(
    code: int | None, last_lines: list[str], last_line: str, job: Record
) -> tuple[str, str]:
    """Return the reason that a program's exit code and last lines name, with its evidence."""
    text = "\n".join(last_lines)
    if code in (137, -9) and (match := re2.search(KILLED_FOR_MEMORY, job.output_tail)):
        return "out of memory", match[0].strip()[:500]
    if named := _find_written((*NO_ROOM, ("out of memory", NO_MEMORY)), text, source=""):
        return named
    if code == 127 and re2.search(NOT_FOUND, text):
        return "program missing", last_line
    return "crashed", last_line


def _find_requeue(record: Record, *, was_requeued: bool) -> str:
    """Return the evidence that the job was started twice by its scheduler; "" if it was not."""
    if record.started_by is None:
        return ""
    for first, second in re2.findall(STEPPED_ASIDE, record.output_tail):
        if first == second == record.started_by:
            return (
                f"its output: job {first} was started again after it had begun, and stepped aside"
            )
    if was_requeued:
        return "the scheduler's queue: the job waited there again after it had begun"
    return ""


def _is_by_the_system(ending: JobEnding) -> bool:
    """Return whether Slurm's accounts say that root, or nobody, cancelled the job."""
    return ending.source == "sacct" and ending.native in ("CANCELLED", "CANCELLED by 0")


def _find_written(
    patterns: tuple[tuple[Failure, str], ...], text: str, *, source: str = "its output: "
) -> tuple[Failure, str] | None:
    for kind, pattern in patterns:
        if match := re2.search(f"(?i){pattern}", text):
            return kind, source + match[0].strip()[:500]
    return None


def _name_person(ending: JobEnding) -> str:
    """Return "sacct: cancelled by root, node1"; "" where the accounts do not say by whom."""
    match = re.fullmatch(r"CANCELLED by (\d+)", ending.native)
    if ending.kind != "cancelled outside" or not match:
        return ""
    person = "root" if match[1] == "0" else f"uid {match[1]}"
    rest = " ".join(filter(None, [ending.exit_code, ending.reason]))
    rest = f" ({rest})" if rest not in ("", "0:0") else ""
    node = f", {ending.node}" if ending.node else ""
    return f"{ending.source}: cancelled by {person}{rest}{node}"


def _describe_ending(ending: JobEnding) -> str:
    """Return "sacct: NODE_FAIL 1:0, node2"."""
    words = " ".join(filter(None, [ending.native, ending.exit_code, ending.reason]))
    source = f"{ending.source}: " if ending.source else ""
    return source + ", ".join(filter(None, [words, ending.node]))


def _name_source(ending: JobEnding) -> str:
    return ending.source or "the scheduler"
