"""What is stored of where numbers come from, as plain values: what the graph is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Place = tuple[str, str]
"""A workload and an environment, by their keys."""
MANY = ""
"""Instead of the key of a workload: several of them."""


@dataclass(frozen=True)
class ImageOrigin:
    """An image of the catalogue, and the digests from which it was made, the nearest first."""

    digest: str
    reference: str = ""
    tree: str = ""
    key: int | None = None
    made_from: tuple[str, ...] = ()


@dataclass(frozen=True)
class EnvironmentOrigin:
    """An environment as it was frozen: how its software is started, and from which image."""

    key: str
    name: str
    runtime: str
    is_baseline: bool
    image: str = ""
    """The digest; "" on bare metal."""
    image_format: str = ""
    image_sha256: str = ""
    image_tree: str = ""


@dataclass(frozen=True)
class WorkloadOrigin:
    """A program with its parameters, as they were frozen."""

    key: str
    name: str
    kind: str
    sha256: str
    """Of the frozen parameters in their canonical form; "" where nothing was frozen."""


@dataclass(frozen=True)
class PersonalEvent:
    """Something that a person did to the study, a job or a run."""

    key: int
    at: str
    what: str
    why: str
    by: str
    job: str = ""
    run: str = ""


@dataclass(frozen=True)
class StudyOrigin:
    """What all runs of an experiment share."""

    key: int
    question: str
    owner: str
    hash: str
    """Of the frozen plan; of imported runs, of their logs."""
    is_imported: bool
    imported_from: str
    bundle: str
    """Of one that another Tare has measured: where it came from; "" of all others."""
    began_at: str
    """When it was launched, or its logs were imported."""
    order_seed: int | None
    extension_hash: str
    cluster: str
    cluster_key: int
    partition: str
    method: str
    software: Mapping[str, str]
    margin: float
    baseline: str
    workloads: Mapping[str, WorkloadOrigin]
    environments: Mapping[str, EnvironmentOrigin]
    images: Mapping[str, ImageOrigin]
    events: tuple[PersonalEvent, ...] = ()

    def describe_place(self, place: Place) -> str:
        """Return a workload in an environment as a text: "cnn in apptainer"."""
        workload, environment = place
        name = self.workloads[workload].name if workload else "all workloads"
        return f"{name} in {self.environments[environment].name}"

    @property
    def launched_by(self) -> str:
        """Return who launched it: its owner, unless an event names somebody else."""
        names = [event.by for event in self.events if event.what == LAUNCHED]
        return names[0] if names else self.owner


LAUNCHED = "launched"


@dataclass(frozen=True)
class Scope:
    """Which part of a study a graph is of."""

    places: tuple[Place, ...]
    images: tuple[str, ...] = ()
    """The digests that its runs were sent with."""
    runs: frozenset[str] = frozenset()
    """The uids of all its runs, also of those that are shown in groups."""
    shown: frozenset[str] = frozenset()
    """The uids of those that are shown one by one."""
    jobs: frozenset[str] = frozenset()
    """The uids of the jobs that are shown one by one."""
    folds: bool = False
    """Whether many decisions on runs are shown as one."""

    def select_events(self, events: Sequence[PersonalEvent]) -> list[PersonalEvent]:
        """Return what persons did to the study, to these runs and to these jobs."""
        return [
            event
            for event in events
            if event.what != LAUNCHED
            and (event.run in self.runs if event.run else (not event.job or event.job in self.jobs))
        ]


@dataclass(frozen=True)
class Value:
    """A number that was measured in a run."""

    metric: str
    value: float
    unit: str
    source: str = ""


@dataclass(frozen=True)
class ProgramFile:
    """A file of which the program of a run consists."""

    path: str
    sha256: str
    size_bytes: int | None = None


@dataclass(frozen=True)
class RunOrigin:
    """A run and the job that it was part of."""

    uid: str
    place: Place
    scale: str
    repeat: int
    state: str
    node: str
    began_at: str
    ended_at: str
    image: str
    """The digest that was sent with it."""
    snapshot: str
    job: str
    block: int
    scheduler_id: str
    attempt: int
    submitted_at: str
    job_ended_at: str
    script_sha256: str
    payload_sha256: str
    values: tuple[Value, ...] = ()
    program: tuple[ProgramFile, ...] = ()
    checkouts: tuple[str, ...] = ()
    """A sentence for each git checkout in which a file of the program lies."""


@dataclass(frozen=True)
class RunGroup:
    """Runs that are shown as one: they differ in nothing but repeat, node and time."""

    place: Place
    metric: str
    count: int
    blocks: int
    jobs: int
    """Of all groups together: those of several environments are runs of the same jobs."""
    nodes: tuple[str, ...]
    images: tuple[str, ...]
    snapshots: int
    payloads: tuple[str, ...]
    """Of all groups together, as the jobs."""
    first_began_at: str = ""
    last_ended_at: str = ""
    query: str = ""
    """The part of the address of the page that shows them one by one."""
    part: str = ""
    """What tells it from other groups of the same place."""


@dataclass(frozen=True)
class Result:
    """What a comparison says of one environment by one metric."""

    number: int
    """Of the configuration, from 1."""
    rank: int
    """Of the metric, from 1."""
    pair: int
    """Its place among the environments of the configuration, from 1."""
    configuration: str
    metric: str
    environment: str
    baseline: str
    ratio: float | None
    interval: tuple[float, float] | None
    level: float
    verdict: str
    stamps: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    """The uids of the runs whose values it rests on."""
    excluded: tuple[str, ...] = field(default_factory=tuple)
    """The uids of runs of either side that persons have excluded."""
