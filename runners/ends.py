"""Every reason with which a job, a run or an operation can end, in one table.

Pages, exports, `docs/how-runs-end.md` and the rule for further attempts all follow this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Cause = Literal["machine", "site", "set-up", "program", "person", "unknown"]
CAUSES: dict[Cause, str] = {
    "machine": "the machine: a node, the scheduler or a disk failed",
    "site": "a rule of the site",
    "set-up": "how the cluster, the environment or the experiment is set up",
    "program": "the program itself",
    "person": "a person",
    "unknown": "not known",
}


@dataclass(frozen=True)
class End:
    """What a reason means, whose cause it is, and what a person can do."""

    cause: Cause
    meaning: str
    advice: str
    by_rule: bool = False
    """Whether Tare plans another attempt by itself: never where the program is the cause."""


TRY_AGAIN = "Then try again."
"""The end of an advice; pages leave it out where no button does that."""

ENDS: dict[str, End] = {
    # --- The machine, or a rule of the site: tried again by rule
    "node failure": End(
        "machine",
        "A node failed, or could not start the job.",
        "Ask the site about that node if it happens again.",
        by_rule=True,
    ),
    "controller failure": End(
        "machine",
        "The scheduler lost its jobs, or knew two by the same number.",
        "Ask the site whether its scheduler has come back whole.",
        by_rule=True,
    ),
    "lost before it began": End(
        "machine",
        "The scheduler forgot the job before it began. Nothing was executed, and no copy of it can "
        "begin any more.",
        "Ask the site whether its scheduler has come back whole.",
        by_rule=True,
    ),
    "no GPU": End(
        "machine",
        "The job requested GPUs, and the node's own nvidia-smi finds none.",
        "Report the node to the site: it may fail every job that it takes.",
        by_rule=True,
    ),
    "preempted": End(
        "site",
        "The scheduler ended the job to make room for one of higher priority.",
        "Choose a partition or QOS whose jobs are not preempted.",
        by_rule=True,
    ),
    "requeued": End(
        "site",
        "The site put the job back into the queue after it had begun. Its runs are not run twice "
        "in one attempt.",
        "Ask the site why it puts running jobs back.",
        by_rule=True,
    ),
    # --- Of a job
    "cancelled outside": End(
        "person",
        "Somebody cancelled the job with the scheduler's own commands.",
        f"If it was none of you, ask the site. {TRY_AGAIN}",
    ),
    "time-out": End(
        "program",
        "The job needed more time than it had requested.",
        "Launch a copy with a longer time limit of the workload, or a shorter program.",
    ),
    "out of memory": End(
        "program",
        "The program needed more memory than it was given.",
        "Give the partition's jobs more memory, or choose a smaller batch.",
    ),
    "disk full": End(
        "site",
        "A file system had no space left.",
        f"Make room in the work directory or where the program writes. {TRY_AGAIN}",
    ),
    "quota": End(
        "site",
        "The account has used up its disk quota.",
        f"Delete what the account no longer needs or ask the site for more. {TRY_AGAIN}",
    ),
    "files deleted": End(
        "site",
        "The job's files had been deleted when its script began. Nothing was executed by it.",
        "If it was none of you, ask the site whether it removes old files from the work directory. "
        f"{TRY_AGAIN}",
    ),
    "gone before it began": End(
        "unknown",
        "The job was deleted while it waited, or lost. Nothing was executed, and no copy of it can "
        "begin any more.",
        f"If it was none of you, ask the site. {TRY_AGAIN}",
    ),
    "lost": End(
        "unknown",
        "The job ended without an exit code, and the scheduler does not say how.",
        f"Collect again looks for late files. If nothing comes, ask the site. {TRY_AGAIN}",
    ),
    "failed": End(
        "unknown",
        "The job script failed, and nothing names a cause.",
        "Read the end of its output, on the page of the run that was under way.",
    ),
    "damaged": End(
        "machine",
        "What the job left on the cluster cannot be read, or does not match its check sums.",
        "Look at the files in its directory; Collect again reads them once more.",
    ),
    "unreadable": End(
        "site",
        "The files are there, and may not be read or are too much for one transfer.",
        "Make them readable or remove what is large, then Collect again.",
    ),
    "refused": End(
        "set-up",
        "The job was never accepted: it cannot be sent, or the scheduler refused it.",
        "Change what the message names, in the partition or the workload, then send it again.",
    ),
    "cancelled": End("person", "A person cancelled it in Tare.", "Launch a copy to run it."),
    # --- Of a run
    "not submitted": End(
        "set-up",
        "Its job was refused, so it never began.",
        "Change what the message names, then send the job again.",
    ),
    "not started": End(
        "unknown",
        "Its job ended before its turn came; the message names the cause.",
        "Run what never began, as a second job of the block.",
    ),
    "not run": End(
        "unknown",
        "The job ended well, and its journal does not mention this run.",
        "Read the job's output in its directory, and tell who looks after Tare.",
    ),
    "crashed": End(
        "program",
        "The program ended with an error, or something killed it.",
        "Read the end of its output below.",
    ),
    "program missing": End(
        "set-up",
        "The program is not there, or not in this environment.",
        "Check the path of Python or of the program in the environment.",
    ),
    "program does not start": End(
        "set-up",
        "The program is there and cannot be started.",
        "Check its first line, and whether it was built for this processor.",
    ),
    "set-up failed": End(
        "set-up",
        "The set-up lines of the cluster or the environment failed.",
        "Try these lines by hand on a node; then correct them.",
    ),
    "runtime missing": End(
        "set-up",
        "The node does not have the container runtime.",
        "Correct its path or add the set-up line that loads it, and check the cluster.",
    ),
    "image missing": End(
        "set-up",
        "The image is not where it was staged.",
        "Verify the staged image, or stage it again.",
    ),
    "directory missing": End(
        "site",
        "The run's directory is not visible from the node.",
        "Choose a work directory that all nodes share.",
    ),
    "launcher failed": End(
        "set-up",
        "The launcher did not start as many processes as the scale requests.",
        "Check the launcher's options of the partition.",
    ),
    "GPU missing": End(
        "set-up",
        "The node has GPUs, and the program cannot use them in its environment.",
        "Check that the runtime passes GPUs on, and that the image has the right CUDA build.",
    ),
    "page cache not cold": End(
        "set-up",
        "Files that were to leave memory before the run stayed there.",
        "Read the message: other programs may use the files, or their file system may be memory.",
    ),
    "page cache not warm": End(
        "set-up",
        "Files that were to be in memory before the run are not.",
        "Read the message: the node may have too little memory for the files of image and data.",
    ),
    "data set unusable": End(
        "set-up",
        "The data set is missing or broken.",
        "Check the path and the files that the message names.",
    ),
    "code unusable": End(
        "set-up",
        "The code that Tare put on the cluster is gone or changed.",
        "Check it on the page of the workload, and put it there again.",
    ),
    "time limit reached": End(
        "program",
        "The run needed longer than its workload's time limit.",
        "Launch a copy with a longer time limit of the workload, or a shorter program.",
    ),
    "to be continued": End(
        "program",
        "Its time was nearly over before its last step; a checkpoint lies in its directory.",
        "A further job goes on by itself, as often as the workload allows.",
    ),
    "no checkpoint": End(
        "program",
        "The program of a run over several jobs has left no checkpoint from which to go on.",
        "Let it write into $TARE_CHECKPOINTS before it ends with exit code 75 or by the signal.",
    ),
    "not sane": End(
        "program",
        "The program ended well, but its numbers are missing or make no sense.",
        "Read the message and the output; correct the program or how its numbers are read.",
    ),
    "rejected": End(
        "machine",
        "A rule of the plan rejects the run for what its node did; its numbers were not looked at.",
        "Look at its node below; ask the site about that node if it happens again.",
    ),
    "too large": End(
        "program",
        "A file with the results is too large to be read.",
        "Have the program write fewer steps or shorter lines.",
    ),
    # --- Of an operation
    "refuted": End(
        "set-up",
        "The operation ran to its end and found that something is wrong.",
        "Read the message; correct what it names and request the operation again.",
    ),
    # --- Of runs in imported logs
    "no metrics": End(
        "program", "The run ended before it logged a step.", "Look into the log that was imported."
    ),
    "loss is not a number": End(
        "program", "The training diverged.", "Lower the learning rate or choose another precision."
    ),
    "log cut off": End("unknown", "The last line of the log has no end.", "Import the whole log."),
    "unfinished": End(
        "unknown", "The log ends before the last step.", "Import the log of a whole run."
    ),
}


def find_end(reason: str) -> End | None:
    """Return what a reason means; None for one that only a program of users names."""
    return ENDS.get(reason) or ENDS.get(reason.partition(" (")[0])


def name_cause(reason: str) -> str:
    """Return whose cause an end is, as a word for exports; "" if it is not known."""
    end = find_end(reason)
    return end.cause if end else ""
