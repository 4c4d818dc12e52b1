"""All commands that Tare sends to a login node, as patterns for the forced command.

An argument stands for itself. `<path>` is below the work directory, `<work>` may be that directory
itself; `<number>`, `<id>`, `<ids>`, `<name>`, `<names>`, `<digest>`, `<key>` and `<text>` are what
they say; `...` repeats what follows it, any number of times.
`tests/runners/test_gate.py` fails for a script that is not here.
"""

from dataclasses import dataclass

from runners.claims import CLAIM
from runners.directories import COPY, LIST, LIST_EACH, PACK
from runners.live_files import LIVE
from runners.probes import PROBES, login_node
from runners.runner import JOURNALS, STARTED, TAIL
from runners.runtimes import RUNTIMES
from runners.schedulers import (
    direct,
    grid_engine,
    grid_engine_queues,
    slurm,
    slurm_offers,
    slurm_queue,
)
from runners.submissions import SEND_JOBS
from runners.transports.base import APPEND, FINISH, READ, SENT, WRITE


@dataclass(frozen=True)
class Command:
    """A command that Tare sends, with placeholders for the arguments that differ each time."""

    purpose: str
    pattern: tuple[str, ...]
    scheduler: str = ""  # the only one that it is sent for; empty: any


ANY = (
    Command("greeting", ("true",)),
    Command("writing a file", ("sh", "-c", WRITE, "write", "<path>", "<number>")),
    Command("reading a file", ("sh", "-c", READ, "read", "<path>", "<number>")),
    Command("making a folder", ("mkdir", "-p", "<path>")),
    Command("sending a large file", ("sh", "-c", SENT, "sent", "<path>", "<number>", "<digest>")),
    Command("going on with it", ("sh", "-c", APPEND, "append", "<path>", "<number>", "<number>")),
    Command("ending it", ("sh", "-c", FINISH, "finish", "<path>")),
    Command("giving it up", ("rm", "-f", "<path>.part")),
    *(
        Command(
            f"sending {folder}",
            ("sh", "-c", SEND_JOBS, "send", "<work>", folder, "<key>", "<key>", "...", "<name>"),
        )
        for folder in ("jobs", "chores")
    ),
    Command("listing files", ("sh", "-c", LIST, "list", "<path>", "<number>")),
    Command("listing each", ("sh", "-c", LIST_EACH, "list", "<number>", "...", "<path>")),
    Command("fetching files", ("sh", "-c", PACK, "pack", "<path>")),
    Command("copying a file", ("sh", "-c", COPY, "copy", "<path>", "<path>", "<number>")),
    Command("reading journals", ("sh", "-c", JOURNALS, "journals", "<path>")),
    Command("which have started", ("sh", "-c", STARTED, "started", "...", "<path>")),
    Command("claiming directories", ("sh", "-c", CLAIM, "claim", "...", "<path>")),
    Command("watching runs", ("sh", "-c", LIVE, "live", "...", "<number>", "<path>")),
    Command("reading a file's end", ("sh", "-c", TAIL, "tail", "<path>", "<number>")),
)
CHECKS = (
    Command("a check's file", ("sh", "-c", login_node.TOKEN, "write", "<work>", "<token>")),
    Command("removing a check's file", ("rm", "-f", "<token_path>")),
    Command("the check", ("bash", "-c", PROBES, "probes", "", "<probes>")),
    Command("system", ("sh", "-c", login_node.SYSTEM)),
    Command("Python", ("python3", "--version")),
    Command("clock", ("date", "+%s")),
    Command("work directory", ("sh", "-c", login_node.WORK_DIRECTORY, "check", "<work>")),
    Command("free space", ("sh", "-c", login_node.SPACE, "df", "<work>")),
    Command("free inodes", ("sh", "-c", login_node.INODES, "df", "<work>")),
    Command("file system", ("sh", "-c", login_node.FILE_SYSTEM, "stat", "<work>")),
    Command("quota", ("sh", "-c", login_node.QUOTA, "quota", "<work>")),
    Command("home directory", ("sh", "-c", login_node.HOME)),
    Command("cores and memory", ("sh", "-c", login_node.MACHINE)),
    Command("GPUs", ("nvidia-smi", "-L")),
    *(
        Command(f"version of {runtime.label}", tuple(runtime().build_version_command("")))
        for kind, runtime in RUNTIMES.items()
        if runtime.command and kind != "pyxis"
    ),
    Command("whether Pyxis is there", ("sh", "-c", login_node.PYXIS)),
)
SLURM = (
    Command("submitting", ("bash", "-c", slurm.SUBMIT, "sbatch", "...", "<path>/job.sh"), "slurm"),
    Command(
        "looking for a job",
        ("squeue", "--noheader", "--states=all", "--name=<name>", "--format=%i|%T|%r"),
        "slurm",
    ),
    Command(
        "looking for jobs",
        ("squeue", "--noheader", "--states=all", "--name=<names>", "--format=%i|%j"),
        "slurm",
    ),
    Command(
        "status",
        (*slurm.IN_SECONDS, "squeue", "--noheader", "--jobs=<ids>", "--format=%i|%T|%S|%j|%r"),
        "slurm",
    ),
    # Of Tare before version 2 of the script: whoever goes back to it need not replace the script.
    Command(
        "status without times",
        ("squeue", "--noheader", "--jobs=<ids>", "--format=%i|%T|%j|%r"),
        "slurm",
    ),
    Command(
        "places in the queue", ("sh", "-c", slurm_queue.PENDING, "pending", "<names>"), "slurm"
    ),
    Command("cancelling", ("scancel", "...", "<id>"), "slurm"),
    Command(
        "accounting",
        ("bash", "-c", slurm.ACCOUNTING, "last-word", "<ids>", "...", "<id>"),
        "slurm",
    ),
    Command("version", ("sbatch", "--version"), "slurm"),
    Command("partitions", ("sinfo", "--noheader", "--format=%R|%a|%l|%D|%T|%G"), "slurm"),
    Command("partitions and nodes", slurm_offers.SIZES, "slurm"),
    Command("limits of partitions", slurm_offers.LIMITS, "slurm"),
    Command("accounts", ("sh", "-c", slurm_offers.ASSOCIATIONS), "slurm"),
    Command("a trial", ("bash", "-c", slurm.TRIAL, "sbatch", "...", "<text>"), "slurm"),
    Command(
        "a check on a node",
        (
            *("srun", "--immediate=<number>", "--input=none", "<options>"),
            *("bash", "-lc", PROBES, "probes", "...", "<text>"),
        ),
        "slurm",
    ),
)
GRID_ENGINE = (
    Command(
        "submitting", ("bash", "-c", grid_engine.SUBMIT, "qsub", "...", "<path>"), "grid_engine"
    ),
    Command("looking for a job", ("bash", "-c", grid_engine.FIND, "find", "<name>"), "grid_engine"),
    Command("status", ("bash", "-c", grid_engine.STATUS, "status", "<ids>"), "grid_engine"),
    Command("cancelling", ("bash", "-c", grid_engine.CANCEL, "qdel", "...", "<id>"), "grid_engine"),
    Command(
        "accounting", ("bash", "-c", grid_engine.ACCOUNTING, "qacct", "...", "<id>"), "grid_engine"
    ),
    Command("version", ("bash", "-c", grid_engine.VERSION), "grid_engine"),
    Command(
        "partitions", ("bash", "-c", grid_engine.BEGIN + grid_engine_queues.QUEUES), "grid_engine"
    ),
    Command("a trial", ("bash", "-c", grid_engine.TRIAL, "qsub", "...", "<text>"), "grid_engine"),
)
DIRECT = (
    Command(
        "submitting",
        ("sh", "-c", direct.SUBMIT, "submit", "<work>", direct.BEGIN, "...", "<path>"),
        "direct",
    ),
    Command("looking for a job", ("sh", "-c", direct.FIND, "find", "<path>"), "direct"),
    Command("status", ("sh", "-c", direct.STATUS, "status", "...", "<id>"), "direct"),
    Command("cancelling", ("sh", "-c", direct.CANCEL, "cancel", "...", "<id>"), "direct"),
    # Without a scheduler jobs run on this machine, so a check may start what a job may.
    Command(
        "a check on this machine",
        ("bash", "-lc", PROBES, "probes", "...", "<text>"),
        "direct",
    ),
)
COMMANDS = (*ANY, *CHECKS, *SLURM, *GRID_ENGINE, *DIRECT)
