"""Grid Engine (8.1, and its relatives) by the texts of qsub, qstat, qacct and qdel."""

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Literal

from runners.errors import Kind, Refused, Scope, TryAgain
from runners.jobs import JobSpec
from runners.schedulers.base import (
    Failure,
    LastWord,
    PartitionFacts,
    Scheduler,
    Status,
    only_asked_gpus,
    printed_id,
    site_options,
    sort_refusal,
)
from runners.schedulers.grid_engine_queues import QUEUES, parse_queues
from runners.transports.base import Completed
from runners.untrusted import clean_text

# Many sites name Grid Engine's commands in the login profile only. Nor may a qmaster that hangs
# leave a client behind with every question, so each has its own end before the transport's.
BEGIN = """command -v qstat >/dev/null || . /etc/profile >/dev/null 2>&1
"""
SUBMIT = BEGIN + 'cd "$1" && exec timeout 25 qsub -terse job.sh'
# By name: of the live, else of the ended ones. Accounting files of large sites take minutes.
FIND = (
    BEGIN
    + """timeout 25 qstat -j "$1" && exit
code=$?
timeout 20 qacct -j "$1" 2>/dev/null
exit $code
"""
)
# The list has the states, the details the reasons; those are worth less than an answer.
STATUS = (
    BEGIN
    + """echo "asked for $1"
timeout 15 qstat -u "$(id -un)" || exit
timeout 10 qstat -j "$1" 2>/dev/null
:
"""
)
CANCEL = BEGIN + 'exec timeout 25 qdel "$@" 2>&1'
LAST_WORD = (
    BEGIN
    + """for id; do timeout 20 qacct -j "$id" 2>/dev/null; done
:
"""
)

VERSION = BEGIN + "timeout 10 qstat -help | head -n 1"
TRIAL = BEGIN + 'printf "%s\\n" "#!/bin/bash" "$@" | timeout 25 qsub -w v'

NOT_NOW = re.compile(
    r"commlib error|unable to (send message|contact|connect)|got (send|select|read) error"
    r"|connection (refused|timed out|reset)|qmaster (is not|isn't) (running|alive)"
    r"|temporarily|unable to initialize environment",
    re.IGNORECASE,
)
OWN = re.compile(
    r"invalid option|unknown option|option argument|script is empty|too long|invalid job name",
    re.IGNORECASE,
)
SITES: tuple[tuple[str, Kind, Scope], ...] = (
    (r"no space left|disk quota exceeded", "disk full", "site"),
    (r"error opening|no such file or directory", "work directory", "site"),
    (r"jobs are allowed|max_\w*jobs|already .* active jobs", "limit", "site"),
    (r"\bproject\b|\baccount\b|no access|has no permission|not allowed", "account", "partition"),
    (r"submit host", "account", "site"),
    (r"offers only|no suitable queue", "nodes", "request"),
    (r"queue|parallel environment|unknown resource|calendar", "partition", "partition"),
)
ENDING = re.compile(r"has (deleted|registered)|already in deletion", re.IGNORECASE)
GONE = re.compile(r"do(es)? not exist", re.IGNORECASE)
NO_ANSWER = (124, 127)  # too slow, and not to be found

# job-ID prior name user state date; the name is cut to ten characters and may hold spaces.
ROW = re.compile(r"\s*(\d+)\s+[\d.-]+\s.*?\s([a-zA-Z]+)\s+\d\d/\d\d/\d{4}\s")
HEAD = re.compile(r"job-ID\s|-+$")
RULE = re.compile(r"^=+$", re.MULTILINE)

LIMIT = "37"  # `failed` of a job that qmaster or execd ended for one of its limits
WARNED = (140, 143)  # ended by USR2 or TERM: somebody's qdel, which the script passes on


class GridEngine(Scheduler):
    """Grid Engine's commands and what they print. A partition is a queue, an account a project.

    How a site spells parallel environments, GPUs and memory is its own: its partitions say so in
    their options. Without such an option GPUs are `-l GRES=N`, and memory is `-l h_vmem` per slot.
    """

    label = "Grid Engine"
    job_id = "${JOB_ID-}"
    facts = 'qstat -j "$JOB_ID"'

    def header(self, job: JobSpec) -> list[str]:
        wanted = job.resources
        site, asked = site_options(wanted)
        if wanted.qos:
            raise ValueError(f"Grid Engine has no QOS such as {wanted.qos!r}")
        options = [
            f"-N {job.name}",
            "-S /bin/bash",
            "-cwd",
            "-j y",
            # By id: a second copy of the job must not touch the first one's output.
            "-o 'scheduler-$JOB_ID.out'",
            "-r n",
            "-notify",
            f"-l h_rt={wanted.time_limit_seconds}",
        ]
        if wanted.partition:
            options.append(f"-q {_word(wanted.partition)}")
        if wanted.node:
            # As a resource it would be asked of each of several nodes.
            several = f"-masterq {_word('*@' + wanted.node)}"
            alone = f"-l hostname={_word(wanted.node)}"
            options.append(several if wanted.nodes > 1 else alone)
        if wanted.account:
            options.append(f"-P {_word(wanted.account)}")
        if (wanted.cpus_per_node > 1 or wanted.nodes > 1) and not asked & {"cpus", "nodes"}:
            raise ValueError(
                "more than one slot needs a parallel environment: give the partition an option "
                "such as -pe smp {cpus}"
            )
        if wanted.gpus_per_node and "gpus" not in asked:
            options.append(f"-l {_word(wanted.gres)}={wanted.gpus_per_node}")
        if wanted.memory_mb is not None and not asked & {"memory", "memory_per_cpu"}:
            options.append(f"-l h_vmem={-(-wanted.memory_mb // wanted.cpus_per_node)}M")
        return [
            *(f"#$ {option}" for option in [*options, *site]),
            "# -notify: USR2 warns before Grid Engine kills, by qdel or for a limit.",
            *only_asked_gpus(wanted),
        ]

    def submit(self, job: JobSpec) -> list[str]:
        # From the job's directory: -cwd needs no quoting, which the lines above have no rules for.
        return ["bash", "-c", SUBMIT, "qsub", job.directory]

    def parse_submit(self, done: Completed) -> str:
        if done.returncode != 0:
            raise sort_refusal(_no(done, Refused), own=OWN, sites=SITES)
        return printed_id(done, r"^(\d+)$", "qsub")

    def find(self, job: JobSpec) -> list[str]:
        return ["bash", "-c", FIND, "find", job.name]

    def parse_find(self, done: Completed) -> str | None:
        printed = clean_text(done.stdout)
        ids = re.findall(r"^job_?number:?\s+([0-9]{1,18})\s*$", printed, re.MULTILINE)
        if not ids and not GONE.search(_words(done)):
            raise _no(done, TryAgain)
        return min(ids, key=int, default=None)

    def status(self, ids: Sequence[str]) -> list[str]:
        return ["bash", "-c", STATUS, "status", ",".join(ids)]

    def parse_status(self, done: Completed) -> dict[str, Status]:
        if done.returncode != 0:
            raise _no(done, TryAgain)
        printed = clean_text(done.stdout)
        table, *details = RULE.split(printed)
        first, *lines = table.splitlines() or [""]
        if not first.startswith("asked for "):  # our own first line
            raise TryAgain(f"This is no answer of Grid Engine's: {first[:200]}", kind="busy")
        asked = first.removeprefix("asked for ").split(",")
        reasons = {number: reason for number, reason in map(_reason, details) if number}
        found = {}
        for line in filter(str.strip, lines):
            row = ROW.match(line)
            if row:
                found[row[1]] = _status(row[2], reasons.get(row[1], ""))
            elif not HEAD.match(line):
                raise TryAgain(
                    f"This is no answer of Grid Engine's: {line.strip()[:200]}", kind="busy"
                )
        return {job_id: found[job_id] for job_id in asked if job_id in found}

    def cancel(self, ids: Sequence[str]) -> list[str]:
        return ["bash", "-c", CANCEL, "qdel", *ids]

    def parse_cancel(self, done: Completed) -> None:
        if done.returncode == 0:
            return
        said = [line for line in _words(done).splitlines() if line.strip()]
        denied = [line for line in said if not (ENDING.search(line) or GONE.search(line))]
        if denied or done.returncode in NO_ANSWER:
            raise _no(done, Refused)

    def last_word(self, ids: Sequence[str]) -> list[str] | None:
        return ["bash", "-c", LAST_WORD, "qacct", *ids]

    def parse_last_word(self, done: Completed) -> dict[str, LastWord]:
        # A job that was run again, or a number that came round again, has several: the last counts.
        words = map(_accounted, RULE.split(clean_text(done.stdout)))
        return {job_id: word for job_id, word in words if job_id}

    def version(self) -> list[str] | None:
        return ["bash", "-c", VERSION]

    def partitions(self) -> list[str] | None:
        return ["bash", "-c", BEGIN + QUEUES]

    def parse_partitions(self, done: Completed) -> list[PartitionFacts]:
        if done.returncode != 0:
            raise _no(done, Refused)
        found = parse_queues(clean_text(done.stdout))
        if not found and done.stdout.strip():
            raise Refused(f"qstat printed no queue: {_words(done)[:200]}")
        return found

    def trial(self, job: JobSpec) -> list[str] | None:
        return ["bash", "-c", TRIAL, "qsub", *self.header(job)]

    def parse_trial(self, done: Completed) -> str:
        if done.returncode != 0:
            raise _no(done, Refused)
        return _words(done)


def _word(text: str) -> str:
    """One word of a `#$` line. ValueError for what would be several, or something else."""
    if not re.fullmatch(r"[\w.@:+*?|&!()=-]+", text):
        raise ValueError(f"Grid Engine takes no such name: {text!r}")
    return shlex.quote(text)


def _status(state: str, reason: str) -> Status:
    """`qw`, `hqw` and `Eqw` wait; `dr` is being deleted, which takes as long as it takes."""
    if state.endswith("w"):
        return Status("queued", reason, state)
    return Status("running", "", state)


def _reason(detail: str) -> tuple[str, str]:
    """The number of a job, and what `qstat -j` says about why it waits."""
    number = re.search(r"^job_number:\s+(\d+)", detail, re.MULTILINE)
    broken = re.search(r"^error reason\s+\d+:\s+(.*)$", detail, re.MULTILINE)
    waits = re.search(r"^scheduling info:\s+(.*(?:\n\s+.*)*)", detail, re.MULTILINE)
    if broken:
        # Date, time, [who:process] and an "error:" come before what went wrong.
        words = re.sub(r"^[\d/]+ [\d:]+ \[[\d:]+\]: (error: )?", "", broken[1].strip())
        reason = f"{words}; it waits until somebody clears the error (qmod -cj) or cancels it"
    else:
        lines = [line.strip() for line in waits[1].splitlines()] if waits else []
        said = [line for line in lines if line and "no messages available" not in line]
        # On a large cluster a line for each queue that has no room hides what is wrong.
        reason = "; ".join(sorted(said, key=lambda line: "dropped because" in line))
    return (number[1] if number else ""), reason


def _accounted(text: str) -> tuple[str, LastWord]:
    """The number of a job, and what `qacct -j` remembers of it."""
    record = dict(_fields(text))
    failed, _, why = (part.strip() for part in record.get("failed", "").partition(":"))
    code = _number(record.get("exit_status", ""))
    seconds, most = record.get("ru_wallclock", "?"), record.get("maxvmem", "?")
    return record.get("jobnumber", ""), LastWord(
        native="done" if failed == "0" else f"failed {failed}",
        exit_code=f"{code:g}",
        reason="; ".join(filter(None, [why, f"ran {seconds}, memory at most {most}"])),
        node=record.get("hostname", ""),
        kind=_kind(record, failed, int(code)),
    )


def _kind(record: dict[str, str], failed: str, code: int) -> Failure | Literal[""]:
    if failed == LIMIT:
        asked = re.search(r"\bh_rt=(\d+)(?![\d:])", record.get("category", ""))
        early = asked and _number(record.get("ru_wallclock", "")) < int(asked[1])
        memory = early and "h_vmem=" in record.get("category", "")
        return "out of memory" if memory else "time-out"
    if code in WARNED:
        return "cancelled outside"
    return "failed" if code or failed != "0" else ""


def _fields(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        yield name, value.strip()


def _number(text: str) -> float:
    """`26`, `26s` and `137 (Killed)` begin with their numbers."""
    found = re.match(r"[0-9]{1,18}(\.[0-9]{1,18})?", text)
    return float(found[0]) if found else 0.0


def _no(done: Completed, otherwise: type[TryAgain] | type[Refused]) -> TryAgain | Refused:
    """What a failed command means, in Grid Engine's words."""
    words = _words(done)
    if otherwise is TryAgain or done.returncode in NO_ANSWER or NOT_NOW.search(words):
        return TryAgain(f"Grid Engine does not answer: {words}", kind="busy")
    return Refused(words)


def _words(done: Completed) -> str:
    """What it said, on whichever of its two outputs."""
    said = clean_text(done.stderr + b"\n" + done.stdout).strip()
    return said or f"return code {done.returncode}"
