"""Workers and clocks by their signs of life: which run, what they do, and which fell silent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db.models.functions import Now

from experiments.execution.holder import is_dead, is_same_process
from experiments.health.service_problems import Problem, tell_how_to_start
from experiments.health.valkey import RQWorker
from experiments.models import Cluster, ServiceSign

LATE = timedelta(seconds=20)  # four beats
MOST_SIGNS = 200
WORKER, CLOCK = ServiceSign.Service.WORKER, ServiceSign.Service.CLOCK


@dataclass(frozen=True)
class Needed:
    """What has to run: the words for its absence, and how it is started."""

    title: str
    consequence: str
    compose_service: str
    command: str  # of manage.py


NEEDED = {
    (WORKER, "default"): Needed(
        "No worker runs",
        "Nothing is submitted, followed or collected until one does; nothing is lost.",
        "worker",
        "worker",
    ),
    (WORKER, "bulk"): Needed(
        "No worker of the queue bulk runs",
        "Images are neither fetched nor sent, and no files of runs are copied, until one does.",
        "bulk",
        "worker --queue bulk",
    ),
    (CLOCK, ""): Needed(
        "No clock runs",
        "Clusters are visited after a click only: what ends there is not noticed by itself.",
        "clock",
        "clock",
    ),
}
"""What has to run, by service and queue."""

TASKS = {
    "tick": "visits a cluster",
    "check": "checks a cluster",
    "fetch_host_key": "fetches a host key",
    "test_connection": "tests a connection",
    "read_cluster": "reads what a cluster offers",
    "send": "sends an image",
    "receive": "fetches an image",
    "copy_file": "copies a file of a run",
    "keep": "computes a comparison",
    "watch": "looks for what owners are to be told",
    "deliver": "sends notifications",
    "deposit": "deposits a bundle",
    "recur": "launches a recurrence",
    "find_changes": "looks for changes of a cluster",
    "store_values": "stores what runs of experiments say",
}
"""What a worker does in each task, in words."""


@dataclass(frozen=True)
class Process:
    """A worker or clock, and what is known of it."""

    sign: ServiceSign
    state: str  # running, late, ended or lost
    visiting: tuple[Cluster, ...] = ()  # whose leases it holds
    record: RQWorker | None = None  # what RQ knows of it
    is_replaced: bool = False  # it is gone, and another one runs in its place

    @property
    def is_alive(self) -> bool:
        return self.state == "running"

    @property
    def state_text(self) -> str:
        """Return the state as pages say it."""
        text = {"late": "silent", "lost": "died"}.get(self.state, self.state)
        return f"{text}, replaced" if self.is_replaced else text

    @property
    def doing(self) -> str:
        """Return what it does now beside its visits, in words."""
        task = self.record.task if self.record else ""
        if self.visiting and task == "tick":
            return ""
        return TASKS.get(task, "")


def list_processes(
    signs: Sequence[ServiceSign],
    now: datetime,
    *,
    leased: Sequence[Cluster] = (),
    workers: Mapping[tuple[str, int], RQWorker] | None = None,
) -> list[Process]:
    """Return the processes of all signs: first those that run, then the others, newest first.

    `now` is the database's time, `leased` the clusters with a lease that has not expired.
    """
    processes = [
        Process(
            sign,
            _find_state(sign, now),
            tuple(row for row in leased if is_same_process(sign.token, row.lease_token)),
            (workers or {}).get((sign.host, sign.pid)),
        )
        if sign.service == WORKER
        else Process(sign, _find_state(sign, now))
        for sign in signs
    ]

    def order(process: Process) -> tuple[bool, str, str, str, int]:
        sign = process.sign
        # Those that run keep their places while the times of their signs change.
        place = (sign.service, sign.queue, sign.host, sign.pid)
        return (False, *place) if process.is_alive else (True, "", "", "", 0)

    return sorted(_mark_replaced(processes), key=order)


def _mark_replaced(processes: Sequence[Process]) -> list[Process]:
    """Mark those that are gone and after which another of their kind was started that runs."""
    newest: dict[tuple[str, str], datetime] = {}
    for process in processes:
        kind, started_at = (process.sign.service, process.sign.queue), process.sign.started_at
        if process.is_alive:
            newest[kind] = max(newest.get(kind, started_at), started_at)

    def is_replaced(process: Process) -> bool:
        sign = process.sign
        started_at = newest.get((sign.service, sign.queue))
        return not process.is_alive and started_at is not None and started_at >= sign.seen_at

    return [replace(process, is_replaced=is_replaced(process)) for process in processes]


def read_processes() -> list[Process]:
    """Return the processes of all signs of this moment, without what they do."""
    signs = list(ServiceSign.objects.annotate(now=Now())[:MOST_SIGNS])
    return list_processes(signs, signs[0].now) if signs else []


def list_missing(processes: Sequence[Process]) -> list[Problem]:
    """Return a problem for each service that has to run and does not."""
    return [
        problem
        for what in NEEDED
        if (problem := find_missing(processes, service=what[0], queue=what[1]))
    ]


def find_missing(
    processes: Sequence[Process], *, service: str, queue: str, host: str = ""
) -> Problem | None:
    """Return the problem if no process of this service runs (on this host, if one is given)."""
    of_service = [
        process
        for process in processes
        if (process.sign.service, process.sign.queue) == (service, queue)
        and host in ("", process.sign.host)
    ]
    if any(process.is_alive for process in of_service):
        return None
    needed = NEEDED[ServiceSign.Service(service), queue]
    seen = max((process.sign.seen_at for process in of_service), default=None)
    details = ""
    if lost := [process for process in of_service if process.state in ("lost", "late")]:
        last = max(lost, key=lambda process: process.sign.seen_at)
        what = "has died" if last.state == "lost" else "has fallen silent"
        details = f"Process {last.sign.pid} on {last.sign.host} {what}."
    return Problem(
        needed.title,
        needed.consequence,
        tell_how_to_start(needed.compose_service, needed.command),
        since=seen,
        details=details,
        is_essential=True,
    )


def _find_state(sign: ServiceSign, now: datetime) -> str:
    if sign.ended_at is not None:
        return "ended"
    if is_dead(sign.token):
        return "lost"
    # One of the future is as old as its distance: a clock was set back since.
    return "running" if abs(now - sign.seen_at) <= LATE else "late"
