"""What was read from a cluster: its scheduler, partitions, runtimes and limits. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from runners.untrusted import Anything, Rows, Table, Text, Whole, validate

MOST_PARTITIONS = 100
"""That are kept of one reading: a form shows them all."""
MOST_NAMES = 30  # of accounts or QOS in one partition
LARGEST = 2**31 - 1  # that the columns hold


@dataclass(frozen=True)
class FoundPartition:
    """A partition with its largest nodes, and what the account may name there."""

    name: str
    state: str
    nodes: int
    gpus_per_node: int = 0
    gpu_model: str = ""
    gres: str = "gpu"
    cpus_per_node: int = 1
    memory_mb: int = 0  # of a node; 0: not known
    time_limit_minutes: int = 0  # 0: no limit
    is_default: bool = False
    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()

    @property
    def memory_gib(self) -> int:
        return round(self.memory_mb / 1024)

    @property
    def is_up(self) -> bool:
        return self.state == "up"


@dataclass(frozen=True)
class FoundRuntime:
    """A runtime that answers on the login node."""

    kind: str  # a key of RUNTIMES
    label: str
    executable: str
    version: str = ""


@dataclass(frozen=True)
class Found:
    """All that a reading knows of a cluster."""

    scheduler: str  # a key of SCHEDULERS
    scheduler_version: str = ""
    home: str = ""
    work_directory: str = ""
    partitions: tuple[FoundPartition, ...] = ()
    left_out: int = 0  # partitions beyond MOST_PARTITIONS
    runtimes: tuple[FoundRuntime, ...] = ()
    max_live_jobs: int = 0  # suggested; 0: nothing was measured
    poll_seconds: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return it as a document that `from_json` reads and any database takes."""
        return dict(validate(_make_plain(asdict(self)), FOUND))

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Found:
        """Return what a stored document says. Raises Damaged if it has another shape."""
        table = validate(dict(document), FOUND)
        partitions = tuple(
            FoundPartition(**_choose_fields(row, FoundPartition)) for row in table.pop("partitions")
        )
        runtimes = tuple(
            FoundRuntime(**_choose_fields(row, FoundRuntime)) for row in table.pop("runtimes")
        )
        return cls(**_choose_fields(table, cls), partitions=partitions, runtimes=runtimes)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Found | None:
        """Return what a stored document says; None if it is empty or damaged."""
        try:
            return cls.from_json(document) if document else None
        except ValueError:
            return None


def _choose_fields(row: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """Return the values that a dataclass has fields for; lists as tuples."""
    names = {each.name for each in fields(kind)}
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in row.items()
        if name in names and value is not None
    }


def _make_plain(value: Any) -> Any:
    """Return a document whose tuples are lists."""
    if isinstance(value, dict):
        return {name: _make_plain(each) for name, each in value.items()}
    return [_make_plain(each) for each in value] if isinstance(value, list | tuple) else value


NAME = Text(100)
COUNT = Whole(0, LARGEST)
PARTITION = Table(
    {
        **dict.fromkeys(("name", "state", "gpu_model", "gres"), NAME),
        **dict.fromkeys(
            ("nodes", "gpus_per_node", "cpus_per_node", "memory_mb", "time_limit_minutes"), COUNT
        ),
        **dict.fromkeys(("accounts", "qos"), Rows(NAME)),
        "is_default": Anything(),
    },
    needed=("name", "state", "nodes"),
)
RUNTIME = Table(
    dict.fromkeys(("kind", "label", "executable", "version"), NAME),
    needed=("kind", "label", "executable"),
)
FOUND = Table(
    {
        **dict.fromkeys(("scheduler", "scheduler_version"), NAME),
        **dict.fromkeys(("home", "work_directory"), Text(500)),
        **dict.fromkeys(("left_out", "max_live_jobs", "poll_seconds"), COUNT),
        "partitions": Rows(PARTITION),
        "runtimes": Rows(RUNTIME),
    },
    needed=("scheduler", "partitions", "runtimes"),
)
