"""The interface of all schedulers: build their commands and parse the answers. No I/O."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from runners.errors import Kind, NotNow, Refused, Scope, TryAgain
from runners.jobs import JobSpec, Resources
from runners.transports.base import Completed
from runners.untrusted import clean_text

Failure = Literal[
    "time-out",
    "out of memory",
    "node failure",
    "controller failure",  # the scheduler forgot its jobs
    "no GPU",  # on a node that should have some
    "preempted",
    "requeued",  # after it had begun
    "cancelled outside",
    "disk full",
    "quota",
    "files deleted",  # before its script began
    "lost",
    "failed",
]

LONGEST_ID = 18  # digits
NAME = re.compile(r"tare-[0-9a-f]{32}-[0-9]+")  # of each job that Tare submits

# Placeholders that a partition's own options may use, to request these in its site's spelling.
PLACEHOLDERS = ("gpus", "cpus", "nodes", "memory", "memory_per_cpu")
PLACEHOLDER = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")


@dataclass(frozen=True)
class Status:
    """The state of a live job, as the scheduler reports it."""

    state: Literal["queued", "running"]
    reason: str  # why it waits, in the scheduler's words; may be empty
    native: str  # the scheduler's own name for the state
    name: str = ""  # of the job, where the scheduler says it
    expected_start: float | None = None
    """When a job that waits is expected to start, in seconds since 1970; None: it does not say."""


@dataclass(frozen=True)
class JobEnding:
    """The scheduler's accounting of a job that has ended."""

    native: str
    exit_code: str  # "code:signal" as the scheduler writes it
    reason: str
    node: str
    kind: Failure | Literal[""]  # empty: it ended well
    source: str = ""  # the command that says so
    name: str = ""  # of the job, where the scheduler says it


def is_of_another_job(answer: Status | JobEnding, name: str) -> bool:
    """Return whether an answer about a number is about another job of Tare's than that name's.

    A scheduler that has lost its state gives numbers again. Other names tell nothing: a site may
    change them.
    """
    return answer.name != name and bool(NAME.fullmatch(answer.name))


@dataclass(frozen=True)
class PartitionFacts:
    """A partition, as the scheduler itself describes it."""

    name: str
    state: str  # "up", or the scheduler's own name for the state in which no job starts there
    time_limit_seconds: int | None  # None: unlimited
    nodes: Mapping[str, int]  # how many are in which state
    gpus_per_node: int | None  # of the nodes that have most; None: it does not say
    gres: tuple[str, ...]  # as the scheduler writes them


@dataclass(frozen=True)
class PendingJobs:
    """The jobs that wait in a partition, in the order of their priorities, without held ones."""

    ids: Sequence[str]
    """As the scheduler writes them: only a job's own number can be that of one of Tare's jobs."""
    is_all: bool = True
    """Whether these are all; else further ones follow that were not read."""


class Scheduler(ABC):
    """The commands of one kind of scheduler, each with the parser of its answer.

    Commands are argument lists; the transport quotes them. Parsers raise TryAgain when the
    scheduler did not answer and Refused, with its own message, when it refused. `parse_submit`
    raises Refused only if it is known to be the job's own fault, and NotNow for other refusals.
    Absence from an answer proves nothing: a job that is missing in a status may still exist.
    """

    label: ClassVar[str]
    has_partitions: ClassVar[bool] = True
    can_exclude_nodes: ClassVar[bool] = False
    """Whether a job can be kept off the nodes that its script names."""
    orders_by_priority: ClassVar[bool] = False
    """Whether it lists the jobs that wait by their priorities, in `build_pending_command`."""
    launchers: ClassVar[Mapping[str, bool]] = {"mpirun": False}
    """Programs that start several processes of a run, and whether they do so on several nodes."""
    absence: ClassVar[str]  # what can be said of a job that none of its commands knows
    remembers_deleted_jobs: ClassVar[bool] = True
    """Whether a job that somebody deletes while it waits can be told from one that was lost."""
    job_id: ClassVar[str]  # shell text that gives, inside the job, the id of `parse_submit`
    facts: ClassVar[str]  # shell command that prints, inside the job, the scheduler's view of it

    def is_id(self, text: str) -> bool:
        """Return whether this can be a job's id. Anything else would make a whole command fail."""
        return bool(re.fullmatch(rf"[0-9]{{1,{LONGEST_ID}}}", text)) and int(text) > 0

    @abstractmethod
    def render_header(self, job: JobSpec) -> list[str]:
        """Return the lines after the script's first. ValueError if a directive has a newline."""

    @abstractmethod
    def build_submit_command(self, jobs: Sequence[JobSpec]) -> list[str]:
        """Return the command that submits `job.sh` of each job's directory, by SUBMIT_EACH."""

    @abstractmethod
    def parse_submit(self, done: Completed) -> str:
        """Return the scheduler's id of one job, from the answer about it."""

    @abstractmethod
    def build_find_command(self, job: JobSpec) -> list[str]:
        """Return the command that looks for a job that may have been submitted."""

    @abstractmethod
    def parse_find(self, done: Completed) -> str | None:
        """Return the id of that job, or None if the scheduler does not know it."""

    def build_find_all_command(self, names: Sequence[str]) -> list[str] | None:
        """Return the command that looks for jobs by their names; None: each is looked for alone."""
        return None

    def parse_find_all(self, done: Completed) -> dict[str, str]:
        """Return the ids of those jobs that the scheduler knows, by name."""
        raise NotImplementedError

    @abstractmethod
    def build_status_command(self, ids: Sequence[str]) -> list[str]:
        """Return the command that asks for the status of all these jobs; at least one id."""

    @abstractmethod
    def parse_status(self, done: Completed) -> dict[str, Status]:
        """Return the status of the live jobs among them, by id."""

    def build_former_status_command(self, ids: Sequence[str]) -> list[str] | None:
        """Return the status command that the forced command's older scripts know, if another."""
        return None

    def parse_former_status(self, done: Completed) -> dict[str, Status]:
        """Return the status of the live jobs in the answer to the former command."""
        raise NotImplementedError

    # Of schedulers with `orders_by_priority` alone.

    def build_pending_command(self, partitions: str) -> list[str]:
        """Return the command that lists the jobs that wait in a partition. Raises TryAgain."""
        raise NotImplementedError

    def parse_pending(self, done: Completed) -> PendingJobs:
        """Return the jobs that wait in that answer. Raises TryAgain."""
        raise NotImplementedError

    @abstractmethod
    def build_cancel_command(self, ids: Sequence[str]) -> list[str]:
        """Return the command that ends jobs; jobs that have ended already are no error."""

    @abstractmethod
    def parse_cancel(self, done: Completed) -> None:
        """Raise TryAgain or Refused unless the scheduler accepted it."""

    def build_accounting_command(self, ids: Sequence[str]) -> list[str] | None:
        """Return the command that asks how jobs ended, or None if there is no accounting."""
        return None

    def parse_accounting(self, done: Completed) -> dict[str, JobEnding]:
        """Return how jobs ended, by id; jobs may be missing."""
        return {}

    # For the check of a cluster. None where this scheduler cannot be asked.

    def build_version_command(self) -> list[str] | None:
        """Return the command that prints the scheduler's name and version."""
        return None

    def build_partitions_command(self) -> list[str] | None:
        """Return the command that describes the partitions, their limits and their nodes."""
        return None

    def parse_partitions(self, done: Completed) -> list[PartitionFacts]:
        """Return the partitions in that answer. Refused, with the reason, if it is none."""
        return []

    def build_trial_command(self, job: JobSpec) -> list[str] | None:
        """Return the command that asks whether a job would be accepted, without submitting it."""
        return None

    def parse_trial(self, done: Completed) -> str:
        """Return the scheduler's message, maybe empty. Refused if it would refuse the job."""
        return ""

    def build_immediate_command(
        self, job: JobSpec, argv: Sequence[str], *, seconds: int
    ) -> list[str] | None:
        """Return the command that runs `argv` on a node now, or gives up after `seconds`."""
        return None

    def is_full(self, message: str) -> bool:
        """Return whether an immediate command gave up because no node was free, by its message."""
        return False


def parse_printed_id(
    done: Completed, pattern: str, command: str, is_id: Callable[[str], bool]
) -> str:
    """Return the job id that `command` printed on a line of its own.

    TryAgain if there is none, or if several numbers could be it, as where a site's own wrapper
    prints some: the job may exist all the same, and is looked for by its name.
    """
    printed = clean_text(done.stdout)
    ids: set[str] = {text for text in re.findall(pattern, printed, re.MULTILINE) if is_id(text)}
    if len(ids) != 1:
        what = "several numbers" if ids else "no job id"
        raise TryAgain(f"{command} printed {what}: {printed.strip()[:500]}", kind="busy")
    return ids.pop()


def classify_refusal(
    refusal: TryAgain | Refused, *, own: re.Pattern[str], sites: Iterable[tuple[str, Kind, Scope]]
) -> TryAgain | Refused:
    """Return the error that a scheduler's refusal means: the end of the job, or a pause.

    `own` matches messages about the job's own faults; `sites` those about the site, of which the
    first match counts. An unknown message pauses jobs that request the same: a pause loses nothing,
    and a person reads the message.
    """
    message = str(refusal)
    if isinstance(refusal, TryAgain) or own.search(message):
        return refusal
    for pattern, kind, scope in sites:
        if re.search(pattern, message, re.IGNORECASE):
            return NotNow(message, kind=kind, scope=scope)
    return NotNow(message, kind="refused", scope="request")


def parse_time_limit(text: str) -> int | None:
    """Return the seconds in "days-hours:minutes:seconds", whose left parts may be missing.

    None for a text that is no number: schedulers write "no limit" in this way.
    """
    days, _, rest = text.rpartition("-")
    try:
        seconds = 0
        for part in rest.split(":"):
            seconds = seconds * 60 + int(part)
        return seconds + int(days or 0) * 86400
    except ValueError:
        return None


def fill_site_options(resources: Resources) -> tuple[list[str], set[str]]:
    """Return the partition's own options for this job, and the placeholders that they use.

    An option with a placeholder of which the job requests none is left out. ValueError if an option
    has more than one line.
    """
    memory = resources.memory_mb or 0
    values = {
        "gpus": resources.gpus_per_node,
        "cpus": resources.cpus_per_node,
        "nodes": resources.nodes,
        "memory": memory,
        "memory_per_cpu": -(-memory // resources.cpus_per_node),
    }
    options, used_placeholders = [], set()
    for directive in resources.directives:
        if len(directive.splitlines()) > 1:
            raise ValueError(f"a directive is one line, this is not: {directive!r}")
        names = set(PLACEHOLDER.findall(directive))
        used_placeholders |= names
        if all(values[name] for name in names):
            options.append(PLACEHOLDER.sub(lambda match: str(values[match[1]]), directive))
    return options, used_placeholders


def limit_visible_gpus(resources: Resources) -> list[str]:
    """Return lines of bash that hide GPUs that the job did not request.

    Some schedulers give all GPUs to a job that has the node alone.
    """
    count = resources.gpus_per_node
    first_gpus = f'$(cut -d, -f-{count} <<<"$CUDA_VISIBLE_DEVICES")' if count else ""
    return [
        "# A job that has the node alone may be given all GPUs: it sees as many as it asked for.",
        'if [ -n "${CUDA_VISIBLE_DEVICES-}" ]; then',
        f"    CUDA_VISIBLE_DEVICES={first_gpus}",
        "fi",
    ]
