"""The whole of what the page *Operations* and `manage.py status` tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from experiments.health.cluster_visits import ClusterVisits, list_cluster_visits, list_leased
from experiments.health.database import Database, read_database
from experiments.health.processes import MOST_SIGNS, WORKER, Process, list_missing, list_processes
from experiments.health.service_problems import Problem, tell_how_to_start
from experiments.health.storage import Disk, Storage
from experiments.health.stuck import list_stuck
from experiments.health.stuck_kinds import Stuck
from experiments.health.supervisor import Supervision, read_supervision
from experiments.health.valkey import Queue, Valkey, read_valkey
from experiments.models import ServiceSign
from experiments.models.compiled_rows import CompiledRows

GONE_SHOWN = timedelta(days=1)
SIGNS = CompiledRows(lambda: ServiceSign.objects.all()[:MOST_SIGNS])
LONGEST_IN_QUEUE = timedelta(minutes=2)  # of a task that a free worker would have taken at once


@dataclass(frozen=True)
class ServiceReport:
    """The state of Tare's own parts at one time, the database's."""

    now: datetime
    database: Database
    valkey: Valkey
    processes: Sequence[Process]
    supervision: Supervision | None
    problems: Sequence[Problem]

    @property
    def running(self) -> list[Process]:
        return [process for process in self.processes if process.is_alive]

    @property
    def gone(self) -> list[Process]:
        """Return the processes that died or fell silent within a day, the last one first."""
        return [
            process
            for process in self.processes
            if process.state in ("late", "lost") and process.sign.seen_at > self.now - GONE_SHOWN
        ]


@dataclass(frozen=True)
class Report(ServiceReport):
    """The same with the visits to clusters, and with what does not go on."""

    visits: Sequence[ClusterVisits]
    stuck: Sequence[Stuck]


def read_services() -> tuple[Database, Valkey, list[Process]]:
    """Ask PostgreSQL, Valkey and all signs of life. Raises OperationalError without PostgreSQL."""
    database = read_database()
    signs = SIGNS.read()
    valkey = read_valkey([sign.token for sign in signs if sign.service == WORKER])
    leased = list_leased()
    processes = list_processes(signs, database.now, leased=leased, workers=valkey.workers)
    return database, valkey, processes


def read_service_report() -> ServiceReport:
    """Return the report on services of this moment. Raises OperationalError without PostgreSQL."""
    database, valkey, processes = read_services()
    now = database.now
    supervision = read_supervision(now)
    problems = [
        *list_missing(processes),
        *find_valkey_problems(valkey),
        *_find_queue_problems(valkey.queues, processes, now),
        *_find_database_problems(database),
        *_find_loops(supervision),
    ]
    return ServiceReport(
        now=now,
        database=database,
        valkey=valkey,
        processes=processes,
        supervision=supervision,
        problems=problems,
    )


def read_report() -> Report:
    """Return the report of this moment. Raises OperationalError without PostgreSQL."""
    services = read_service_report()
    return Report(
        **vars(services),
        visits=list_cluster_visits(services.now, [process.sign for process in services.running]),
        stuck=list_stuck(services.now),
    )


def find_valkey_problems(valkey: Valkey) -> list[Problem]:
    """Return what is wrong with Valkey."""
    if valkey.problem:
        return [
            Problem(
                "Valkey does not answer",
                "Workers are not told what to do, so nothing is submitted or collected; nothing is "
                "lost: what is to be done stands in PostgreSQL.",
                tell_how_to_start("valkey"),
                details=valkey.problem,
                is_essential=True,
            )
        ]
    if valkey.most_bytes and valkey.used_bytes and valkey.used_bytes > 0.9 * valkey.most_bytes:
        return [
            Problem(
                "Valkey’s memory is nearly full",
                "When it is full, it takes no more tasks.",
                "See which queue is long, or give it more (maxmemory).",
            )
        ]
    return []


def find_storage_problems(storage: Storage) -> list[Problem]:
    """Return which disks are nearly full."""
    return find_disk_problems(storage.database_disk, storage.store_disk)


def find_disk_problems(database_disk: Disk | None, store_disk: Disk | None) -> list[Problem]:
    """Return which of the two disks are nearly full."""
    disks = (
        (
            database_disk,
            "the database",
            "When it is full, PostgreSQL stops, and everything with it.",
        ),
        (
            store_disk,
            "the image store",
            "When it is full, no images are fetched and no files are copied.",
        ),
    )
    return [
        Problem(
            f"The disk of {what} is nearly full",
            consequence,
            "Make room, or move it to a larger disk.",
            details=disk.path,
        )
        for disk, what, consequence in disks
        if disk and disk.is_nearly_full
    ]


def _find_queue_problems(
    queues: Sequence[Queue], processes: Sequence[Process], now: datetime
) -> list[Problem]:
    """Return which queues have a worker that does not keep up."""
    workers = {process.sign.queue for process in processes if process.is_alive}
    return [
        Problem(
            f"Tasks wait long in the queue {queue.name}",
            f"{queue.waiting} wait: its workers do not keep up, or one of them hangs.",
            "See below what they do. More workers can run at the same time.",
            since=queue.oldest_at,
        )
        for queue in queues
        if queue.waiting
        and queue.oldest_at
        and queue.name in workers
        and queue.name != "bulk"  # one image may take hours
        and now - queue.oldest_at > LONGEST_IN_QUEUE
    ]


def _find_database_problems(database: Database) -> list[Problem]:
    if not database.is_nearly_full:
        return []
    count, most = database.connections, database.most_connections
    return [
        Problem(
            "PostgreSQL has few connections left",
            f"{count} of {most} are taken; without a free one, workers and pages fail.",
            "Raise max_connections, or end what holds them.",
        )
    ]


def _find_loops(supervision: Supervision | None) -> list[Problem]:
    """Return which services end again and again, or cannot be started."""
    if supervision is None or supervision.is_stopped:
        return []
    return [
        Problem(
            f"{service.name} ends again and again",
            f"{service.ends_in_a_row} times in a row; it is started again every 30 s.",
            f"Its log says why: {service.log}",
            details=service.problem,
        )
        for service in supervision.services
        if service.is_loop
    ]
