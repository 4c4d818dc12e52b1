"""The seam to whatever decides when a job may run. Pure: commands out, answers in."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
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
    "cancelled outside",
    "disk full",
    "lost",
    "failed",
]

LONGEST_ID = 18  # digits

# What a partition's own options may name, to ask in its site's spelling.
PLACEHOLDERS = ("gpus", "cpus", "nodes", "memory", "memory_per_cpu")
PLACEHOLDER = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")


@dataclass(frozen=True)
class Status:
    """A live job, as the scheduler sees it now."""

    state: Literal["queued", "running"]
    reason: str  # why it waits, in the scheduler's words; may be empty
    native: str  # the scheduler's own name of the state


@dataclass(frozen=True)
class LastWord:
    """What the scheduler remembers of a job that has ended."""

    native: str
    exit_code: str  # "code:signal" as the scheduler writes it
    reason: str
    node: str
    kind: Failure | Literal[""]  # empty: it ended well


@dataclass(frozen=True)
class PartitionFacts:
    """A partition, as the scheduler itself describes it."""

    name: str
    state: str  # "up", or the scheduler's own word for why no job starts there
    time_limit_seconds: int | None  # None: unlimited
    nodes: Mapping[str, int]  # how many are in which state
    gpus_per_node: int | None  # of the nodes that have most; None: it does not say
    gres: tuple[str, ...]  # as the scheduler writes them


class Scheduler(ABC):
    """Commands for one kind of scheduler, each with the parser of its answer.

    Commands are argument lists; the transport quotes them. Parsers raise TryAgain when the
    scheduler did not answer and Refused, with its own words, when it answered no. `parse_submit`
    raises Refused only for what is known to be the job's own fault, and NotNow for all other noes.
    Absence from an answer proves nothing: a job that is not named in a status is simply not named.
    """

    label: ClassVar[str]
    has_partitions: ClassVar[bool] = True
    launchers: ClassVar[Mapping[str, bool]] = {"mpirun": False}
    """What starts several processes of a run there, and whether on several nodes too."""
    job_id: ClassVar[str]  # shell text that gives, inside the job, the id that `submit` printed
    facts: ClassVar[
        str
    ]  # shell command that prints, inside the job, what the scheduler has to say of it

    def is_id(self, text: str) -> bool:
        """Whether this can be the id of a job here. Others would make a whole command fail."""
        return bool(re.fullmatch(rf"[0-9]{{1,{LONGEST_ID}}}", text))

    @abstractmethod
    def header(self, job: JobSpec) -> list[str]:
        """The lines that follow the script's first; ValueError if a directive has a newline."""

    @abstractmethod
    def submit(self, job: JobSpec) -> list[str]:
        """The command that submits `job.sh` of the job's directory."""

    @abstractmethod
    def parse_submit(self, done: Completed) -> str:
        """The scheduler's id of the job."""

    @abstractmethod
    def find(self, job: JobSpec) -> list[str]:
        """The command that looks for a job that may have been submitted."""

    @abstractmethod
    def parse_find(self, done: Completed) -> str | None:
        """The id of that job, None if the scheduler does not know it."""

    @abstractmethod
    def status(self, ids: Sequence[str]) -> list[str]:
        """One command for all jobs, however many. At least one id."""

    @abstractmethod
    def parse_status(self, done: Completed) -> dict[str, Status]:
        """The live ones among them."""

    @abstractmethod
    def cancel(self, ids: Sequence[str]) -> list[str]:
        """The command that ends jobs; jobs that have ended already are no error."""

    @abstractmethod
    def parse_cancel(self, done: Completed) -> None:
        """Return if the scheduler took notice."""

    def last_word(self, ids: Sequence[str]) -> list[str] | None:
        """The command that asks how jobs ended; None where nobody remembers."""
        return None

    def parse_last_word(self, done: Completed) -> dict[str, LastWord]:
        """What is remembered; may leave out jobs."""
        return {}

    # What a preflight asks. None where this scheduler has no way to be asked.

    def version(self) -> list[str] | None:
        """The command that prints the scheduler's name and version."""
        return None

    def partitions(self) -> list[str] | None:
        """The command that describes the partitions, their limits and their nodes."""
        return None

    def parse_partitions(self, done: Completed) -> list[PartitionFacts]:
        """The partitions in that answer. Refused, in words, if it is none."""
        return []

    def trial(self, job: JobSpec) -> list[str] | None:
        """The command that asks whether a job would be accepted, without submitting it."""
        return None

    def parse_trial(self, done: Completed) -> str:
        """What the scheduler says of it, empty if nothing; Refused if it would refuse the job."""
        return ""

    def at_once(self, job: JobSpec, argv: Sequence[str], *, seconds: int) -> list[str] | None:
        """The command that runs `argv` on a node now, or gives up after `seconds` of waiting."""
        return None

    def is_full(self, words: str) -> bool:
        """Whether `at_once` gave up because no node was free, by what it complained of."""
        return False


def printed_id(done: Completed, pattern: str, command: str) -> str:
    """The job id that `command` printed last, on a line of its own.

    TryAgain if there is none: the job may be there all the same, and is asked for by its name.
    """
    printed = clean_text(done.stdout)
    ids = re.findall(pattern, printed, re.MULTILINE)
    if not ids or len(ids[-1]) > LONGEST_ID:
        raise TryAgain(f"{command} printed no job id: {printed.strip()[:500]}", kind="busy")
    return str(ids[-1])


def sort_refusal(
    no: TryAgain | Refused, *, own: re.Pattern[str], sites: Iterable[tuple[str, Kind, Scope]]
) -> TryAgain | Refused:
    """Return what a scheduler's no to a job means: an end of the job, or a pause.

    `own` matches what is the job's own fault; `sites` what sites say for reasons of their own, of
    which the first that matches counts. What neither knows pauses what asks for the same: a pause
    loses nothing, and a person reads the words.
    """
    words = str(no)
    if isinstance(no, TryAgain) or own.search(words):
        return no
    for pattern, kind, scope in sites:
        if re.search(pattern, words, re.IGNORECASE):
            return NotNow(words, kind=kind, scope=scope)
    return NotNow(words, kind="refused", scope="request")


def limit_seconds(text: str) -> int | None:
    """Seconds in "days-hours:minutes:seconds", of which the left parts may be missing.

    None for what is no number, which is how schedulers write that there is no limit.
    """
    days, _, rest = text.rpartition("-")
    try:
        seconds = 0
        for part in rest.split(":"):
            seconds = seconds * 60 + int(part)
        return seconds + int(days or 0) * 86400
    except ValueError:
        return None


def site_options(wanted: Resources) -> tuple[list[str], set[str]]:
    """The partition's own options for this job, and the placeholders that they ask by.

    An option that names something of which the job wants none is left out. ValueError if one of
    them is more than one line.
    """
    memory = wanted.memory_mb or 0
    values = {
        "gpus": wanted.gpus_per_node,
        "cpus": wanted.cpus_per_node,
        "nodes": wanted.nodes,
        "memory": memory,
        "memory_per_cpu": -(-memory // wanted.cpus_per_node),
    }
    options, asked = [], set()
    for directive in wanted.directives:
        if len(directive.splitlines()) > 1:
            raise ValueError(f"a directive is one line, this is not: {directive!r}")
        names = set(PLACEHOLDER.findall(directive))
        asked |= names
        if all(values[name] for name in names):
            options.append(PLACEHOLDER.sub(lambda found: str(values[found[1]]), directive))
    return options, asked


def only_asked_gpus(wanted: Resources) -> list[str]:
    """Lines of bash for schedulers that give a job which has the node alone all of its GPUs."""
    count = wanted.gpus_per_node
    some = f'$(cut -d, -f-{count} <<<"$CUDA_VISIBLE_DEVICES")' if count else ""
    return [
        "# A job that has the node alone may be given all GPUs: it sees as many as it asked for.",
        'if [ -n "${CUDA_VISIBLE_DEVICES-}" ]; then',
        f"    CUDA_VISIBLE_DEVICES={some}",
        "fi",
    ]
