"""Slurm, 20.11 or newer, by its fixed-field outputs (its JSON changes shape between versions)."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from runners.errors import Kind, Refused, Scope, TryAgain
from runners.jobs import JobSpec
from runners.schedulers.base import (
    Failure,
    LastWord,
    PartitionFacts,
    Scheduler,
    Status,
    limit_seconds,
    only_asked_gpus,
    printed_id,
    site_options,
    sort_refusal,
)
from runners.transports.base import Completed
from runners.untrusted import clean_text

# Options in the submitter's variables would win over the script's own lines.
SUBMIT = 'unset "${!SBATCH_@}"; exec sbatch --parsable "$1"'

# What Slurm says when it has not answered, or takes nothing now but may later.
NOT_NOW = re.compile(
    r"unable to contact slurm controller|socket timed out|zero bytes were transmitted"
    r"|connection (refused|timed out|reset)|resource temporarily unavailable"
    r"|slurm backup controller in standby|communication (failure|error)"
    r"|unable to connect|problem talking to the database|persist_conn",
    re.IGNORECASE,
)
# What a job is to blame for, or the options that it was sent with.
OWN = re.compile(
    r"memory specification|cpu count|more processors|node count|time limit is invalid"
    r"|(unrecognized|unknown|invalid) (option|argument)|requires an argument|batch script"
    r"|invalid (feature|generic resource|trackable resource|\S*gres\S*|\S*tres\S*) spec|too long",
    re.IGNORECASE,
)
# Why a site takes no job now, whatever the job is. A limit on the size of one job is met by
# experiments of that size only.
SITES: tuple[tuple[str, Kind, Scope], ...] = (
    (r"no space left|disk quota exceeded", "disk full", "site"),
    (r"unable to (open|stat) (the )?file", "work directory", "site"),
    (r"temporarily unable to accept", "limit", "site"),
    (r"\b(Assoc|QOS|User)\w*(Submit|MaxJobs|GrpJobs)|MaxSubmitJob", "limit", "partition"),
    (r"\b(Assoc|QOS)\w*(Max|Min|Grp)|accounting/QOS policy", "limit", "request"),
    (r"invalid qos|\baccount\b|access/permission denied|invalid user", "account", "partition"),
    (r"partition|reservation", "partition", "partition"),
    (r"\bnodes?\b", "nodes", "request"),
)
# The same script as a real job's, and nothing is submitted.
TRIAL = 'unset "${!SBATCH_@}"; printf "%s\\n" "#!/bin/sh" "$@" | exec sbatch --test-only'
# Without a database behind sacct the controller is asked, which remembers for some minutes. Where
# neither knows, the job's own files speak.
LAST_WORD = """{ words=$(sacct --parsable2 --noheader --jobs="$1" \\
    --format=JobIDRaw,State,ExitCode,NodeList,Reason 2>&1 >&3); code=$?; } 3>&1
case $words in *"accounting storage is disabled"*) ;; *)
    printf "%s\\n" "$words" >&2
    exit "$code" ;;
esac
shift
for id; do scontrol --oneliner show job "$id"; done
"""
# What belongs to a script and its files, not to a command that runs at once.
OF_A_SCRIPT = ("--job-name=", "--chdir=", "--output=", "--export=", "--no-requeue")
FULL = re.compile(r"requested nodes are busy|immediate|queued and waiting", re.IGNORECASE)
FORGOTTEN = re.compile(r"accounting storage is disabled|invalid job id", re.IGNORECASE)
# What `scontrol show job` tells of a job, in the order of sacct's fields below.
TOLD = re.compile(
    r"JobId=(?P<id>\d+) (?=.*? JobState=(?P<state>\S+) )(?=.*? ExitCode=(?P<exit>\S+) )"
    r"(?=.*? NodeList=(?P<node>\S*) )(?=.*? Reason=(?P<reason>\S+) )"
)
NOT_FOUND = 127
NO_JOB = 2**32 - 2  # Slurm's ids are below

WAITING = {
    *("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"),
    "RESV_DEL_HOLD",
}
# Every state in which a job has ended, and what that means if it left no exit code.
ENDED: dict[str, Failure | Literal[""]] = {
    "COMPLETED": "",
    "FAILED": "failed",
    "TIMEOUT": "time-out",
    "DEADLINE": "time-out",
    "OUT_OF_MEMORY": "out of memory",
    "NODE_FAIL": "node failure",
    "BOOT_FAIL": "node failure",
    "LAUNCH_FAILED": "node failure",
    "RECONFIG_FAIL": "node failure",
    "CANCELLED": "cancelled outside",
    "PREEMPTED": "cancelled outside",
    "REVOKED": "cancelled outside",
}


NO_NODES = ("(null)", "None assigned")
# What accounts say of a job under way when slurmctld comes back without its state; of one that a
# person or an administrator ends they say "CANCELLED by" whom.
BY_NOBODY = "by nobody, as when Slurm's controller has lost its state: try the job again"


class Slurm(Scheduler):
    """Slurm's commands and what they print."""

    label = "Slurm"
    launchers: ClassVar = {"srun": True, "mpirun": True}
    job_id = "$SLURM_JOB_ID"
    facts = 'scontrol show job -o "$SLURM_JOB_ID"'

    def is_id(self, text: str) -> bool:
        return super().is_id(text) and 0 < int(text) < NO_JOB

    def header(self, job: JobSpec) -> list[str]:
        wanted = job.resources
        site, asked = site_options(wanted)
        options = [
            f"--job-name={job.name}",
            f"--chdir={job.directory}",
            # By id: a second copy of the job must not touch the first one's output.
            "--output=scheduler-%j.out",
            f"--nodes={wanted.nodes}",
            f"--ntasks-per-node={job.launch.processes_per_node}",
            *([] if "cpus" in asked else [f"--cpus-per-task={job.cpus_of_a_process}"]),
            f"--time={-(-wanted.time_limit_seconds // 60)}",  # minutes, rounded up
            "--no-requeue",
            "--export=NONE",
        ]
        if wanted.gpus_per_node and "gpus" not in asked:
            options.append(f"--gres={wanted.gres}:{wanted.gpus_per_node}")
        if wanted.memory_mb is not None and not asked & {"memory", "memory_per_cpu"}:
            options.append(f"--mem={wanted.memory_mb}M")
        if wanted.node:
            options.append(f"--nodelist={wanted.node}")
        for name in ("partition", "account", "qos"):
            if value := getattr(wanted, name):
                options.append(f"--{name}={value}")
        lines = [f"#SBATCH {shlex.quote(option)}" for option in options]
        lines += [f"#SBATCH {option}" for option in site]
        for line in lines:
            if len(line.splitlines()) > 1:
                raise ValueError(f"a directive is one line, this is not: {line!r}")
        return [
            *lines,
            "# --export=NONE keeps the submitter's variables out, but would starve srun here.",
            "unset SLURM_EXPORT_ENV",
            *only_asked_gpus(wanted),
        ]

    def submit(self, job: JobSpec) -> list[str]:
        return ["bash", "-c", SUBMIT, "sbatch", f"{job.directory}/job.sh"]

    def parse_submit(self, done: Completed) -> str:
        if done.returncode != 0:
            raise sort_refusal(_no(done, Refused), own=OWN, sites=SITES)
        return printed_id(done, r"^(\d+)(?:;.*)?$", "sbatch")

    def find(self, job: JobSpec) -> list[str]:
        return ["squeue", "--noheader", "--states=all", f"--name={job.name}", "--format=%i|%T|%r"]

    def parse_find(self, done: Completed) -> str | None:
        ids = [row[0] for row in _rows(done, 3)]
        if odd := next((one for one in ids if not self.is_id(one)), ""):
            raise TryAgain(f"This is no answer of Slurm's: {odd[:200]}", kind="busy")
        return min(ids, key=int, default=None)

    def status(self, ids: Sequence[str]) -> list[str]:
        # One id alone is an error once squeue has forgotten it; two are not, even the same twice.
        jobs = ",".join([*ids, ids[0]])
        return ["squeue", "--noheader", f"--jobs={jobs}", "--format=%i|%T|%r"]

    def parse_status(self, done: Completed) -> dict[str, Status]:
        return {
            job_id: Status("queued" if state in WAITING else "running", _said(reason), state)
            for job_id, state, reason in _rows(done, 3)
            if state not in ENDED
        }

    def cancel(self, ids: Sequence[str]) -> list[str]:
        return ["scancel", *ids]

    def parse_cancel(self, done: Completed) -> None:
        if done.returncode != 0 and not FORGOTTEN.search(_words(done)):
            raise _no(done, Refused)

    def last_word(self, ids: Sequence[str]) -> list[str] | None:
        # Not -X: it leaves out jobs that never became eligible. Steps are told by their ids.
        return ["bash", "-c", LAST_WORD, "last-word", ",".join(ids), *ids]

    def parse_last_word(self, done: Completed) -> dict[str, LastWord]:
        lines = clean_text(done.stdout).splitlines()
        told = [TOLD.match(line) for line in lines]
        has_accounts = not (lines and all(told))
        if not has_accounts:
            rows = [list(found.group(*TOLD.groupindex)) for found in told if found]
        else:
            rows = _rows(done, 5)
        found = {}
        for job_id, state, exit_code, node, reason in rows:
            name = state.partition(" ")[0]  # "CANCELLED by 1000" says who
            if job_id.isdigit() and name in ENDED:
                nodes = "" if node in NO_NODES else node
                last = LastWord(state, exit_code, _said(reason), nodes, ENDED[name])
                if has_accounts and nodes and state == "CANCELLED":
                    last = replace(last, reason=BY_NOBODY, kind="controller failure")
                found[job_id] = last
        return found

    def version(self) -> list[str] | None:
        return ["sbatch", "--version"]

    def partitions(self) -> list[str] | None:
        return ["sinfo", "--noheader", "--format=%R|%a|%l|%D|%T|%G"]

    def parse_partitions(self, done: Completed) -> list[PartitionFacts]:
        if done.returncode != 0:
            raise _no(done, Refused)
        found: dict[str, PartitionFacts] = {}
        for line in clean_text(done.stdout).splitlines():
            row = line.strip().split("|")
            if len(row) != 6 or not re.fullmatch(r"[0-9]{1,9}", row[3]):
                raise Refused(f"sinfo printed no partition: {line.strip()[:200]}")
            name, state, limit, count, node_state, gres = row
            one = found.get(name) or PartitionFacts(name, state, limit_seconds(limit), {}, 0, ())
            kinds = () if gres in ("", "(null)") else (gres,)
            word = node_state.rstrip("*~#!%$@^-+")
            found[name] = replace(
                one,
                nodes={**one.nodes, word: one.nodes.get(word, 0) + int(count)},
                gpus_per_node=max(one.gpus_per_node or 0, _gpus(gres)),
                gres=tuple(dict.fromkeys((*one.gres, *kinds))),
            )
        return list(found.values())

    def trial(self, job: JobSpec) -> list[str] | None:
        return ["bash", "-c", TRIAL, "sbatch", *self.header(job)]

    def parse_trial(self, done: Completed) -> str:
        if done.returncode != 0:
            raise _no(done, Refused)
        return _words(done).removeprefix("sbatch: ")

    def at_once(self, job: JobSpec, argv: Sequence[str], *, seconds: int) -> list[str] | None:
        lines = (line for line in self.header(job) if line.startswith("#SBATCH "))
        options = [word for line in lines for word in shlex.split(line, comments=False)[1:]]
        wanted = [word for word in options if not word.startswith(OF_A_SCRIPT)]
        return ["srun", f"--immediate={seconds}", "--input=none", *wanted, *argv]

    def is_full(self, words: str) -> bool:
        return bool(FULL.search(words))


def _gpus(gres: str) -> int:
    """How many GPUs a node with these generic resources has: "gpu:h100:4(S:0-1),shard:8"."""
    counts = re.findall(r"(?:^|,)gpu(?::[^,:(]+)?:(\d{1,9})(?!\d)", gres)
    return sum(int(count) for count in counts)


def _rows(done: Completed, fields: int) -> list[list[str]]:
    """Lines of squeue or sacct, the last field being free text; none if the job is forgotten.

    TryAgain if a line is none: what is missing from rubbish has not ended.
    """
    if done.returncode != 0:
        if FORGOTTEN.search(_words(done)):
            return []
        raise _no(done, TryAgain)
    lines = clean_text(done.stdout).splitlines()
    rows = [line.strip().split("|", fields - 1) for line in lines if line.strip()]
    for row in rows:
        if len(row) != fields:
            raise TryAgain(f"This is no answer of Slurm's: {row[0][:200]}", kind="busy")
    return rows


def _no(done: Completed, otherwise: type[TryAgain] | type[Refused]) -> TryAgain | Refused:
    """What a failed command means, in Slurm's words."""
    words = _words(done)
    if otherwise is TryAgain or done.returncode == NOT_FOUND or NOT_NOW.search(words):
        return TryAgain(f"Slurm does not answer: {words}", kind="busy")
    return Refused(words)


def _words(done: Completed) -> str:
    printed = clean_text(done.stderr).strip()
    return printed or f"return code {done.returncode}"


def _said(reason: str) -> str:
    return "" if reason == "None" else reason
