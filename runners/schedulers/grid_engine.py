"""Grid Engine (8.1, and its relatives) by the texts of qsub, qstat, qacct and qdel."""

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Literal

from runners.errors import Kind, Refused, Scope, TryAgain
from runners.jobs import JobSpec
from runners.schedulers.base import (
    Failure,
    JobEnding,
    PartitionFacts,
    Scheduler,
    Status,
    classify_refusal,
    fill_site_options,
    limit_visible_gpus,
    parse_printed_id,
)
from runners.schedulers.grid_engine_queues import QUEUES, parse_queues
from runners.schedulers.submit_loop import SUBMIT_EACH
from runners.transports.base import Completed
from runners.untrusted import clean_text

# Many sites put Grid Engine's commands on the PATH in the login profile only. And each command has
# a time limit, shorter than the transport's: a hanging qmaster must not leave clients behind.
BEGIN = """command -v qstat >/dev/null || . /etc/profile >/dev/null 2>&1
"""
SUBMIT = (
    BEGIN
    + """submit() { cd "$1" && exec timeout 25 qsub -terse job.sh; }
"""
    + SUBMIT_EACH
)
# By name: among live jobs, else among ended ones. Accounting files of large sites take minutes.
FIND = (
    BEGIN
    + """timeout 25 qstat -j "$1" && exit
code=$?
timeout 20 qacct -j "$1" 2>/dev/null
exit $code
"""
)
# The list has the states, the details the reasons, without which the answer is still useful.
STATUS = (
    BEGIN
    + """echo "asked for $1"
timeout 15 qstat -u "$(id -un)" || exit
timeout 10 qstat -j "$1" 2>/dev/null
:
"""
)
CANCEL = BEGIN + 'exec timeout 25 qdel "$@" 2>&1'
ACCOUNTING = (
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
NO_ANSWER = (124, 127)  # too slow; not found

# job-ID prior name user state date; the name is cut to ten characters and may hold spaces.
ROW = re.compile(r"\s*(\d+)\s+[\d.-]+\s.*?\s([a-zA-Z]+)\s+\d\d/\d\d/\d{4}\s")
HEAD = re.compile(r"job-ID\s|-+$")
RULE = re.compile(r"^=+$", re.MULTILINE)

LIMIT = "37"  # `failed` of a job that qmaster or execd ended for one of its limits
# `failed` of a job that its node could not start, or lost; see sge_status(5).
NODE = {*map(str, range(1, 12)), *("18", "19", "20", "21")}
RESCHEDULED = ("24", "25")
WARNED = (140, 143)  # ended by USR2 or TERM: somebody's qdel, whose signal the script passes on


class GridEngine(Scheduler):
    """Grid Engine's commands and what they print. A partition is a queue, an account a project.

    Each site has its own options for parallel environments, GPUs and memory, which its partitions
    name. Without such an option GPUs are `-l GRES=N`, and memory is `-l h_vmem` per slot.
    """

    label = "Grid Engine"
    absence = "neither qstat nor qacct knows the job"
    remembers_deleted_jobs = False  # its accounts have only what began
    job_id = "${JOB_ID-}"
    facts = 'qstat -j "$JOB_ID"'

    def render_header(self, job: JobSpec) -> list[str]:
        resources = job.resources
        site_options, used_placeholders = fill_site_options(resources)
        if resources.qos:
            raise ValueError(f"Grid Engine has no QOS such as {resources.qos!r}")
        options = [
            f"-N {job.name}",
            "-S /bin/bash",
            "-cwd",
            "-j y",
            # By id: a second copy of the job must not touch the output of the first.
            "-o 'scheduler-$JOB_ID.out'",
            "-r n",
            "-notify",
            f"-l h_rt={resources.time_limit_seconds}",
        ]
        if resources.partition:
            options.append(f"-q {_quote_name(resources.partition)}")
        if resources.node:
            # As a resource it would be asked of each of several nodes.
            several = f"-masterq {_quote_name('*@' + resources.node)}"
            alone = f"-l hostname={_quote_name(resources.node)}"
            options.append(several if resources.nodes > 1 else alone)
        if resources.account:
            options.append(f"-P {_quote_name(resources.account)}")
        if (resources.cpus_per_node > 1 or resources.nodes > 1) and not used_placeholders & {
            "cpus",
            "nodes",
        }:
            raise ValueError(
                "more than one slot needs a parallel environment: give the partition an option "
                "such as -pe smp {cpus}"
            )
        if resources.gpus_per_node and "gpus" not in used_placeholders:
            options.append(f"-l {_quote_name(resources.gres)}={resources.gpus_per_node}")
        if resources.memory_mb is not None and not used_placeholders & {"memory", "memory_per_cpu"}:
            options.append(f"-l h_vmem={-(-resources.memory_mb // resources.cpus_per_node)}M")
        return [
            *(f"#$ {option}" for option in [*options, *site_options]),
            "# -notify: USR2 warns before Grid Engine kills, by qdel or for a limit.",
            *limit_visible_gpus(resources),
        ]

    def build_submit_command(self, jobs: Sequence[JobSpec]) -> list[str]:
        # From the job's directory: -cwd needs no quoting, for which `#$` lines have no rules.
        return ["bash", "-c", SUBMIT, "qsub", *(job.directory for job in jobs)]

    def parse_submit(self, done: Completed) -> str:
        if done.returncode != 0:
            raise classify_refusal(_explain_failure(done, Refused), own=OWN, sites=SITES)
        return parse_printed_id(done, r"^(\d+)$", "qsub", self.is_id)

    def build_find_command(self, job: JobSpec) -> list[str]:
        return ["bash", "-c", FIND, "find", job.name]

    def parse_find(self, done: Completed) -> str | None:
        printed = clean_text(done.stdout)
        ids = re.findall(r"^job_?number:?\s+([0-9]{1,18})\s*$", printed, re.MULTILINE)
        if not ids and not GONE.search(_read_message(done)):
            raise _explain_failure(done, TryAgain)
        return min(ids, key=int, default=None)

    def build_status_command(self, ids: Sequence[str]) -> list[str]:
        return ["bash", "-c", STATUS, "status", ",".join(ids)]

    def parse_status(self, done: Completed) -> dict[str, Status]:
        if done.returncode != 0:
            raise _explain_failure(done, TryAgain)
        printed = clean_text(done.stdout)
        table, *details = RULE.split(printed)
        first, *lines = table.splitlines() or [""]
        if not first.startswith("asked for "):  # our own first line
            raise TryAgain(f"This is no answer of Grid Engine's: {first[:200]}", kind="busy")
        requested_ids = first.removeprefix("asked for ").split(",")
        reasons = {number: reason for number, reason in map(_parse_reason, details) if number}
        statuses = {}
        for line in filter(str.strip, lines):
            row = ROW.match(line)
            if row:
                statuses[row[1]] = _make_status(row[2], reasons.get(row[1], ""))
            elif not HEAD.match(line):
                raise TryAgain(
                    f"This is no answer of Grid Engine's: {line.strip()[:200]}", kind="busy"
                )
        return {job_id: statuses[job_id] for job_id in requested_ids if job_id in statuses}

    def build_cancel_command(self, ids: Sequence[str]) -> list[str]:
        return ["bash", "-c", CANCEL, "qdel", *ids]

    def parse_cancel(self, done: Completed) -> None:
        if done.returncode == 0:
            return
        lines = [line for line in _read_message(done).splitlines() if line.strip()]
        denied = [line for line in lines if not (ENDING.search(line) or GONE.search(line))]
        if denied or done.returncode in NO_ANSWER:
            raise _explain_failure(done, Refused)

    def build_accounting_command(self, ids: Sequence[str]) -> list[str] | None:
        return ["bash", "-c", ACCOUNTING, "qacct", *ids]

    def parse_accounting(self, done: Completed) -> dict[str, JobEnding]:
        # A job that was rerun, or a number that was used again, has several: the last counts.
        endings = map(_parse_accounting, RULE.split(clean_text(done.stdout)))
        return {job_id: ending for job_id, ending in endings if job_id}

    def build_version_command(self) -> list[str] | None:
        return ["bash", "-c", VERSION]

    def build_partitions_command(self) -> list[str] | None:
        return ["bash", "-c", BEGIN + QUEUES]

    def parse_partitions(self, done: Completed) -> list[PartitionFacts]:
        if done.returncode != 0:
            raise _explain_failure(done, Refused)
        queues = parse_queues(clean_text(done.stdout))
        if not queues and done.stdout.strip():
            raise Refused(f"qstat printed no queue: {_read_message(done)[:200]}")
        return queues

    def build_trial_command(self, job: JobSpec) -> list[str] | None:
        return ["bash", "-c", TRIAL, "qsub", *self.render_header(job)]

    def parse_trial(self, done: Completed) -> str:
        if done.returncode != 0:
            raise _explain_failure(done, Refused)
        return _read_message(done)


def _quote_name(text: str) -> str:
    """Quote a name for a `#$` line. ValueError if it could be read as anything else."""
    if not re.fullmatch(r"[\w.@:+*?|&!()=-]+", text):
        raise ValueError(f"Grid Engine takes no such name: {text!r}")
    return shlex.quote(text)


def _make_status(state: str, reason: str) -> Status:
    """Return the status for `qw`, `hqw` or `Eqw` (waiting), or `r`, `dr` and others (running)."""
    if state.endswith("w"):
        return Status("queued", reason, state)
    return Status("running", "", state)


def _parse_reason(detail: str) -> tuple[str, str]:
    """Return the number of a job, and the reason why it waits, from its part of `qstat -j`."""
    number = re.search(r"^job_number:\s+(\d+)", detail, re.MULTILINE)
    broken = re.search(r"^error reason\s+\d+:\s+(.*)$", detail, re.MULTILINE)
    waits = re.search(r"^scheduling info:\s+(.*(?:\n\s+.*)*)", detail, re.MULTILINE)
    if broken:
        # Date, time, [who:process] and an "error:" come before what went wrong.
        error = re.sub(r"^[\d/]+ [\d:]+ \[[\d:]+\]: (error: )?", "", broken[1].strip())
        reason = f"{error}; it waits until somebody clears the error (qmod -cj) or cancels it"
    else:
        lines = [line.strip() for line in waits[1].splitlines()] if waits else []
        messages = [line for line in lines if line and "no messages available" not in line]
        # Large clusters have a line for each full queue: these come last, what is wrong first.
        reason = "; ".join(sorted(messages, key=lambda line: "dropped because" in line))
    return (number[1] if number else ""), reason


def _parse_accounting(text: str) -> tuple[str, JobEnding]:
    """Return the number of a job, and how it ended, from its part of `qacct -j`."""
    record = dict(_split_fields(text))
    failed, _, why = (part.strip() for part in record.get("failed", "").partition(":"))
    code = _parse_number(record.get("exit_status", ""))
    seconds, most = record.get("ru_wallclock", "?"), record.get("maxvmem", "?")
    return record.get("jobnumber", ""), JobEnding(
        native="done" if failed == "0" else f"failed {failed}",
        exit_code=f"{code:g}",
        reason="; ".join(filter(None, [why, f"ran {seconds}, memory at most {most}"])),
        node=record.get("hostname", ""),
        kind=_classify_end(record, failed, int(code)),
        source="qacct",
    )


def _classify_end(record: dict[str, str], failed: str, code: int) -> Failure | Literal[""]:
    if failed == LIMIT:
        time_limit = re.search(r"\bh_rt=(\d+)(?![\d:])", record.get("category", ""))
        early = time_limit and _parse_number(record.get("ru_wallclock", "")) < int(time_limit[1])
        memory = early and "h_vmem=" in record.get("category", "")
        return "out of memory" if memory else "time-out"
    if failed in NODE:
        return "node failure"
    if failed in RESCHEDULED:
        return "requeued"
    if code in WARNED:
        return "cancelled outside"
    return "failed" if code or failed != "0" else ""


def _split_fields(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        yield name, value.strip()


def _parse_number(text: str) -> float:
    """Return the number that `26`, `26s` and `137 (Killed)` begin with, or 0."""
    match = re.match(r"[0-9]{1,18}(\.[0-9]{1,18})?", text)
    return float(match[0]) if match else 0.0


def _explain_failure(
    done: Completed, error_type: type[TryAgain] | type[Refused]
) -> TryAgain | Refused:
    """Return the error that a failed command means, with Grid Engine's own message."""
    message = _read_message(done)
    if error_type is TryAgain or done.returncode in NO_ANSWER or NOT_NOW.search(message):
        return TryAgain(f"Grid Engine does not answer: {message}", kind="busy")
    return Refused(message)


def _read_message(done: Completed) -> str:
    """Return what it printed on stderr and stdout."""
    message = clean_text(done.stderr + b"\n" + done.stdout).strip()
    return message or f"return code {done.returncode}"
