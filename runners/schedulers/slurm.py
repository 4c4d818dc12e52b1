"""Slurm, 20.11 or newer, by its outputs with fixed fields (its JSON differs between versions)."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from runners.errors import Kind, Refused, Scope, TryAgain
from runners.jobs import JobSpec
from runners.schedulers import slurm_queue
from runners.schedulers.base import (
    Failure,
    JobEnding,
    PartitionFacts,
    PendingJobs,
    Scheduler,
    Status,
    classify_refusal,
    fill_site_options,
    limit_visible_gpus,
    parse_printed_id,
    parse_time_limit,
)
from runners.schedulers.submit_loop import SUBMIT_EACH
from runners.transports.base import Completed
from runners.untrusted import LATEST, clean_text

# Options in the submitter's variables would win over the script's own lines.
SUBMIT = (
    """unset "${!SBATCH_@}"
submit() { exec sbatch --parsable "$1"; }
"""
    + SUBMIT_EACH
)

# Messages of Slurm when it does not answer, or takes nothing now but may later.
NOT_NOW = re.compile(
    r"unable to contact slurm controller|socket timed out|zero bytes were transmitted"
    r"|connection (refused|timed out|reset)|resource temporarily unavailable"
    r"|slurm backup controller in standby|communication (failure|error)"
    r"|unable to connect|problem talking to the database|persist_conn",
    re.IGNORECASE,
)
# Messages about the job's own faults, or those of its options.
OWN = re.compile(
    r"memory specification|cpu count|more processors|node count|time limit is invalid"
    r"|(unrecognized|unknown|invalid) (option|argument)|requires an argument|batch script"
    r"|invalid (feature|generic resource|trackable resource|\S*gres\S*|\S*tres\S*) spec|too long",
    re.IGNORECASE,
)
# Messages about the site, whatever the job is. A limit on the size of one job concerns only
# experiments of that size.
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
# The same script as a real job's, but nothing is submitted.
TRIAL = 'unset "${!SBATCH_@}"; printf "%s\\n" "#!/bin/sh" "$@" | exec sbatch --test-only'
# Without a database behind sacct the controller is asked, which remembers jobs for some minutes.
# If neither knows, the job's own files tell how it ended.
ACCOUNTING = """{ words=$(sacct --parsable2 --noheader --jobs="$1" \\
    --format=JobIDRaw,State,ExitCode,NodeList,JobName,Reason 2>&1 >&3); code=$?; } 3>&1
case $words in *"accounting storage is disabled"*) ;; *)
    printf "%s\\n" "$words" >&2
    exit "$code" ;;
esac
shift
for id; do scontrol --oneliner show job "$id"; done
"""
# Options of a script and its files, which a command that runs at once does not have.
SCRIPT_OPTIONS = ("--job-name=", "--chdir=", "--output=", "--export=", "--no-requeue")
FULL = re.compile(r"requested nodes are busy|immediate|queued and waiting", re.IGNORECASE)
# Not "Invalid job id: 0": then a command has refused one word, and told nothing of all others.
FORGOTTEN = re.compile(r"accounting storage is disabled|invalid job id specified", re.IGNORECASE)
# A job in the output of `scontrol show job`, and its parts in the order of sacct's fields above.
SHOWN_JOB = re.compile(
    r"JobId=(?P<id>\d+) (?=(?:JobName=(?P<name>\S*) )?)(?=.*? JobState=(?P<state>\S+) )"
    r"(?=.*? ExitCode=(?P<exit>\S+) )(?=.*? NodeList=(?P<node>\S*) )(?=.*? Reason=(?P<reason>\S+) )"
)
FIELDS = ("id", "state", "exit", "node", "name", "reason")
IN_SECONDS = ("env", "SLURM_TIME_FORMAT=%s")
"""Otherwise times are in the cluster's zone, which they do not name, or as a site writes them."""
NOT_FOUND = 127
NO_JOB = 2**32 - 2  # Slurm's ids are below

WAITING = {
    *("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"),
    "RESV_DEL_HOLD",
}
# All states in which a job has ended, and what they mean if it left no exit code.
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
    "PREEMPTED": "preempted",
    "REVOKED": "cancelled outside",
}


NO_NODES = ("(null)", "None assigned")
# Accounts say only "CANCELLED" of jobs that waited or were under way when slurmctld comes back
# without its state; of one that a person or an administrator ends they say "CANCELLED by" whom.
BY_NOBODY = "by nobody, as when Slurm's controller has lost its state"


class Slurm(Scheduler):
    """Slurm's commands and what they print."""

    label = "Slurm"
    can_exclude_nodes = True
    orders_by_priority = True
    launchers: ClassVar = {"srun": True, "mpirun": True}
    absence = "neither squeue nor sacct knows the job"
    job_id = "$SLURM_JOB_ID"
    facts = 'scontrol show job -o "$SLURM_JOB_ID"'

    def is_id(self, text: str) -> bool:
        return super().is_id(text) and int(text) < NO_JOB

    def render_header(self, job: JobSpec) -> list[str]:
        resources = job.resources
        site_options, used_placeholders = fill_site_options(resources)
        options = [
            f"--job-name={job.name}",
            f"--chdir={job.directory}",
            # By id: a second copy of the job must not touch the first one's output.
            "--output=scheduler-%j.out",
            f"--nodes={resources.nodes}",
            f"--ntasks-per-node={job.launch.processes_per_node}",
            *([] if "cpus" in used_placeholders else [f"--cpus-per-task={job.cpus_of_a_process}"]),
            f"--time={-(-resources.time_limit_seconds // 60)}",  # minutes, rounded up
            "--no-requeue",
            "--export=NONE",
        ]
        if resources.gpus_per_node and "gpus" not in used_placeholders:
            options.append(f"--gres={resources.gres}:{resources.gpus_per_node}")
        if resources.memory_mb is not None and not used_placeholders & {"memory", "memory_per_cpu"}:
            options.append(f"--mem={resources.memory_mb}M")
        if resources.node:
            options.append(f"--nodelist={resources.node}")
        elif resources.avoided_nodes:
            options.append(f"--exclude={resources.avoided_nodes}")
        for name in ("partition", "account", "qos"):
            if value := getattr(resources, name):
                options.append(f"--{name}={value}")
        lines = [f"#SBATCH {shlex.quote(option)}" for option in options]
        lines += [f"#SBATCH {option}" for option in site_options]
        for line in lines:
            if len(line.splitlines()) > 1:
                raise ValueError(f"a directive is one line, this is not: {line!r}")
        return [
            *lines,
            "# --export=NONE keeps the submitter's variables out, but would starve srun here.",
            "unset SLURM_EXPORT_ENV",
            *limit_visible_gpus(resources),
        ]

    def build_submit_command(self, jobs: Sequence[JobSpec]) -> list[str]:
        return ["bash", "-c", SUBMIT, "sbatch", *(f"{job.directory}/job.sh" for job in jobs)]

    def parse_submit(self, done: Completed) -> str:
        if done.returncode != 0:
            raise classify_refusal(_explain_failure(done, Refused), own=OWN, sites=SITES)
        return parse_printed_id(done, r"^(\d+)(?:;.*)?$", "sbatch", self.is_id)

    def build_find_command(self, job: JobSpec) -> list[str]:
        return ["squeue", "--noheader", "--states=all", f"--name={job.name}", "--format=%i|%T|%r"]

    def parse_find(self, done: Completed) -> str | None:
        ids = [row[0] for row in _parse_rows(done, 3)]
        for job_id in ids:
            self._require_id(job_id)
        return min(ids, key=int, default=None)

    def build_find_all_command(self, names: Sequence[str]) -> list[str] | None:
        named = ",".join(names)
        return ["squeue", "--noheader", "--states=all", f"--name={named}", "--format=%i|%j"]

    def parse_find_all(self, done: Completed) -> dict[str, str]:
        ids: dict[str, str] = {}
        for job_id, name in _parse_rows(done, 2):
            self._require_id(job_id)
            ids[name] = min(job_id, ids.get(name, job_id), key=int)
        return ids

    def _require_id(self, text: str) -> None:
        if not self.is_id(text):
            raise TryAgain(f"This is no answer of Slurm's: {text[:200]}", kind="busy")

    def build_status_command(self, ids: Sequence[str]) -> list[str]:
        command = ["squeue", "--noheader", _name_jobs(ids), "--format=%i|%T|%S|%j|%r"]
        return [*IN_SECONDS, *command]

    def parse_status(self, done: Completed) -> dict[str, Status]:
        return _read_statuses(_parse_rows(done, 5))

    def build_former_status_command(self, ids: Sequence[str]) -> list[str] | None:
        return ["squeue", "--noheader", _name_jobs(ids), "--format=%i|%T|%j|%r"]

    def parse_former_status(self, done: Completed) -> dict[str, Status]:
        rows = _parse_rows(done, 4)
        return _read_statuses([[*row[:2], "", *row[2:]] for row in rows])

    def build_pending_command(self, partitions: str) -> list[str]:
        return slurm_queue.build_pending_command(partitions)

    def parse_pending(self, done: Completed) -> PendingJobs:
        return slurm_queue.parse_pending(done)

    def build_cancel_command(self, ids: Sequence[str]) -> list[str]:
        return ["scancel", *ids]

    def parse_cancel(self, done: Completed) -> None:
        if done.returncode != 0 and not FORGOTTEN.search(_read_error_message(done)):
            raise _explain_failure(done, Refused)

    def build_accounting_command(self, ids: Sequence[str]) -> list[str] | None:
        # Not -X: it leaves out jobs that never became eligible. Steps have ids of their own form.
        return ["bash", "-c", ACCOUNTING, "last-word", ",".join(ids), *ids]

    def parse_accounting(self, done: Completed) -> dict[str, JobEnding]:
        lines = clean_text(done.stdout).splitlines()
        matches = [SHOWN_JOB.match(line) for line in lines]
        has_accounts = not (lines and all(matches))
        if not has_accounts:
            rows = [[part or "" for part in match.group(*FIELDS)] for match in matches if match]
        else:
            rows = _parse_rows(done, len(FIELDS))
        endings = {}
        for job_id, state, exit_code, node, name, reason in rows:
            kind = ENDED.get(state.partition(" ")[0])  # of "CANCELLED by 1000"
            if job_id.isdigit() and kind is not None:
                nodes = "" if node in NO_NODES else node
                fields = (state, exit_code, _clean_reason(reason), nodes, kind)
                source = "sacct" if has_accounts else "scontrol"
                ending = JobEnding(*fields, source=source, name=name)
                if has_accounts and state == "CANCELLED":
                    ending = replace(ending, reason=BY_NOBODY, kind="controller failure")
                endings[job_id] = ending
        return endings

    def build_version_command(self) -> list[str] | None:
        return ["sbatch", "--version"]

    def build_partitions_command(self) -> list[str] | None:
        return ["sinfo", "--noheader", "--format=%R|%a|%l|%D|%T|%G"]

    def parse_partitions(self, done: Completed) -> list[PartitionFacts]:
        if done.returncode != 0:
            raise _explain_failure(done, Refused)
        partitions: dict[str, PartitionFacts] = {}
        for line in clean_text(done.stdout).splitlines():
            row = line.strip().split("|")
            if len(row) != 6 or not re.fullmatch(r"[0-9]{1,9}", row[3]):
                raise Refused(f"sinfo printed no partition: {line.strip()[:200]}")
            name, state, limit, count, node_state, gres = row
            known = partitions.get(name) or PartitionFacts(
                name, state, parse_time_limit(limit), {}, 0, ()
            )
            kinds = () if gres in ("", "(null)") else (gres,)
            base_state = node_state.rstrip("*~#!%$@^-+")
            partitions[name] = replace(
                known,
                nodes={**known.nodes, base_state: known.nodes.get(base_state, 0) + int(count)},
                gpus_per_node=max(known.gpus_per_node or 0, _count_gpus(gres)),
                gres=tuple(dict.fromkeys((*known.gres, *kinds))),
            )
        return list(partitions.values())

    def build_trial_command(self, job: JobSpec) -> list[str] | None:
        return ["bash", "-c", TRIAL, "sbatch", *self.render_header(job)]

    def parse_trial(self, done: Completed) -> str:
        if done.returncode != 0:
            raise _explain_failure(done, Refused)
        return _read_error_message(done).removeprefix("sbatch: ")

    def build_immediate_command(
        self, job: JobSpec, argv: Sequence[str], *, seconds: int
    ) -> list[str] | None:
        lines = (line for line in self.render_header(job) if line.startswith("#SBATCH "))
        options = [option for line in lines for option in shlex.split(line, comments=False)[1:]]
        node_options = [option for option in options if not option.startswith(SCRIPT_OPTIONS)]
        return ["srun", f"--immediate={seconds}", "--input=none", *node_options, *argv]

    def is_full(self, message: str) -> bool:
        return bool(FULL.search(message))


def _count_gpus(gres: str) -> int:
    """Return how many GPUs a node with these resources has: "gpu:h100:4(S:0-1),shard:8"."""
    counts = re.findall(r"(?:^|,)gpu(?::[^,:(]+)?:(\d{1,9})(?!\d)", gres)
    return sum(int(count) for count in counts)


def _parse_rows(done: Completed, fields: int) -> list[list[str]]:
    """Return the lines of squeue or sacct as fields, the last of which is free text.

    None of them if the job is forgotten. TryAgain if a line has other fields: a job that is missing
    from a broken answer has not ended.
    """
    if done.returncode != 0:
        if FORGOTTEN.search(_read_error_message(done)):
            return []
        raise _explain_failure(done, TryAgain)
    lines = clean_text(done.stdout).splitlines()
    rows = [line.strip().split("|", fields - 1) for line in lines if line.strip()]
    for row in rows:
        if len(row) != fields:
            raise TryAgain(f"This is no answer of Slurm's: {row[0][:200]}", kind="busy")
    return rows


def _explain_failure(
    done: Completed, error_type: type[TryAgain] | type[Refused]
) -> TryAgain | Refused:
    """Return the error that a failed command means, with Slurm's own message."""
    message = _read_error_message(done)
    if error_type is TryAgain or done.returncode == NOT_FOUND or NOT_NOW.search(message):
        return TryAgain(f"Slurm does not answer: {message}", kind="busy")
    return Refused(message)


def _read_error_message(done: Completed) -> str:
    printed = clean_text(done.stderr).strip()
    return printed or f"return code {done.returncode}"


def _name_jobs(ids: Sequence[str]) -> str:
    """Return squeue's option for these jobs.

    One id alone is an error once squeue has forgotten it; two are not, even the same twice.
    """
    return f"--jobs={','.join([*ids, ids[0]])}"


def _read_statuses(rows: Sequence[Sequence[str]]) -> dict[str, Status]:
    """Return the status of live jobs from rows of id, state, expected start, name and reason."""
    return {
        job_id: Status(
            "queued" if state in WAITING else "running",
            _clean_reason(reason),
            state,
            name,
            _parse_start(start) if state in WAITING else None,
        )
        for job_id, state, start, name, reason in rows
        if state not in ENDED
    }


def _parse_start(text: str) -> float | None:
    """Return a time in seconds since 1970; None for "N/A", and for any other way to write one."""
    is_time = re.fullmatch(r"[0-9]{1,18}", text.strip())
    return float(text) if is_time and 0 < float(text) < LATEST else None


def _clean_reason(reason: str) -> str:
    return "" if reason == "None" else reason
