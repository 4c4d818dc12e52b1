"""`manage.py status`: whether all that Tare needs runs; for people and for health checks."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import InterfaceError, OperationalError, ProgrammingError

from experiments.health.processes import CLOCK, WORKER, Process, find_missing
from experiments.health.service_problems import Problem, tell_how_to_start
from experiments.health.status_report import (
    Report,
    find_storage_problems,
    find_valkey_problems,
    read_report,
    read_services,
)
from experiments.health.storage import Storage, read_storage
from experiments.health.valkey import read_valkey
from experiments.statistics.numbers import duration, quantity

PROCESSES = {"worker": (WORKER, "default"), "bulk": (WORKER, "bulk"), "clock": (CLOCK, "")}
SERVICES = ("database", "valkey", *PROCESSES)


class Command(BaseCommand):
    help = (
        "Print the state of services, queues, clusters and storage, and what is stuck. The exit "
        "code is 1 if something is missing without which no work goes on."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "services",
            nargs="*",
            metavar="SERVICE",
            help=f"Ask about these only, quickly: {', '.join(SERVICES)}.",
        )
        parser.add_argument(
            "--here",
            action="store_true",
            help="Only workers and clocks of this host count: for the health check of a container.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Print what there is; exit with code 1 if something essential is missing."""
        services: Sequence[str] = options["services"]
        host = socket.gethostname() if options["here"] else ""
        if unknown := [name for name in services if name not in SERVICES]:
            self.stderr.write(f"Unknown: {', '.join(unknown)}. There are {', '.join(SERVICES)}.")
            sys.exit(2)
        try:
            problems = self._ask(services, host) if services or host else self._tell_all()
        except (OperationalError, InterfaceError) as error:
            problems = [_describe_absence(error), *find_valkey_problems(read_valkey())]
        except ProgrammingError as error:
            problems = [_describe_old_tables(error)]
        for problem in problems:
            self.stdout.write(_tell_problem(problem))
        if any(problem.is_essential for problem in problems):
            sys.exit(1)
        if services or host:
            self.stdout.write("ok")

    def _ask(self, services: Sequence[str], host: str) -> list[Problem]:
        """Return what is wrong with the services named, or with all of them."""
        asked = services or SERVICES
        if set(asked) == {"valkey"}:
            return find_valkey_problems(read_valkey())
        _, valkey, processes = read_services()
        problems = find_valkey_problems(valkey) if "valkey" in asked else []
        for name in asked:
            if name in PROCESSES:
                service, queue = PROCESSES[name]
                missing = find_missing(processes, service=service, queue=queue, host=host)
                problems += [missing] if missing else []
        return problems

    def _tell_all(self) -> list[Problem]:
        report, storage = read_report(), read_storage()
        for lines in (
            _tell_services(report),
            _tell_queues(report),
            _tell_clusters(report),
            _tell_storage(report, storage),
            _tell_stuck(report),
        ):
            self.stdout.write("\n".join(lines) + "\n\n")
        problems = [*report.problems, *find_storage_problems(storage)]
        if not problems:
            self.stdout.write("All that Tare needs is running.")
        return problems


def _describe_absence(error: Exception) -> Problem:
    return Problem(
        "PostgreSQL does not answer",
        "No page opens and nothing is submitted or collected; what runs on clusters goes on.",
        tell_how_to_start("postgres"),
        details=str(error).strip(),
        is_essential=True,
    )


def _describe_old_tables(error: Exception) -> Problem:
    return Problem(
        "The tables of PostgreSQL are not those of this version",
        "Pages, workers and the clock fail until they are.",
        "Run manage.py migrate.",
        details=str(error).partition("\n")[0],
        is_essential=True,
    )


def _tell_problem(problem: Problem) -> str:
    since = f" (last seen {problem.since:%Y-%m-%d %H:%M:%S} UTC)" if problem.since else ""
    rest = " ".join(filter(None, (problem.consequence, problem.advice, problem.details)))
    return f"! {problem.title}{since}. {rest}"


def _lay_out(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return a table as lines: a title, heads, and columns as wide as their widest cell."""
    texts = [[str(cell).replace("\n", " ") for cell in row] for row in (heads, *rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(heads))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    ]
    return [title.upper(), *lines] if rows else [title.upper(), "none"]


def _tell_services(report: Report) -> list[str]:
    def age(since: Any) -> str:
        return duration(max((report.now - since).total_seconds(), 0.0))

    def describe(process: Process) -> tuple[str, ...]:
        visits = ", ".join(f"visits {cluster}" for cluster in process.visiting)
        sign = process.sign
        return (
            str(sign),
            process.state_text,
            f"{sign.host}, process {sign.pid}",
            age(sign.started_at),
            f"{age(sign.seen_at)} ago",
            ", ".join(filter(None, (visits, process.doing))) or "–",
        )

    database, valkey = report.database, report.valkey
    connections = f"{database.connections} of {database.most_connections} connections"
    uptime = age(valkey.started_at) if valkey.started_at else "–"
    rows: list[tuple[str, ...]] = [
        ("PostgreSQL", "running", database.version, age(database.started_at), "now", connections),
        ("Valkey", "absent", "–", "–", "–", valkey.problem)
        if valkey.problem
        else ("Valkey", "running", valkey.version, uptime, "now", "–"),
        *(describe(process) for process in report.running),
        *(describe(process) for process in report.gone[:5]),
    ]
    return _lay_out("Services", ("name", "state", "where", "for", "seen", "now"), rows)


def _tell_queues(report: Report) -> list[str]:
    rows = [
        (
            queue.name,
            queue.waiting,
            duration((report.now - queue.oldest_at).total_seconds()) if queue.oldest_at else "–",
            queue.under_way,
            queue.failed,
        )
        for queue in report.valkey.queues
    ]
    return _lay_out("Queues", ("queue", "waiting", "oldest for", "under way", "failed"), rows)


def _tell_clusters(report: Report) -> list[str]:
    def ago(value: Any) -> str:
        return duration(max((report.now - value).total_seconds(), 0.0)) if value else "never"

    rows = [
        (
            row.cluster,
            row.state,
            ago(row.cluster.last_tick_at),
            duration(row.took_seconds),
            f"{duration(row.interval_seconds)} / {duration(row.setting_seconds)}",
            row.live,
            row.waiting,
            row.cluster.failures,
            (row.cluster.last_error or "–")[:100],
        )
        for row in report.visits
    ]
    heads = (
        *("cluster", "state", "visited before", "took", "interval / set", "live", "waiting"),
        *("failures", "last error"),
    )
    return _lay_out("Clusters", heads, rows)


def _tell_storage(report: Report, storage: Storage) -> list[str]:
    def size(value: float | None) -> str:
        return quantity(None if value is None else float(value), "B", significant=3)

    rows = [("database", size(storage.database_bytes), f"{size(storage.run_bytes)} a run")]
    rows += [(table.name, size(table.size_bytes), "") for table in storage.tables[:3]]
    if storage.store:
        taken = storage.store.images_bytes + storage.store.incoming_bytes
        rows.append(("image store", size(taken), f"{storage.store.images} files"))
        rows.append(("copies", size(storage.store.copies_bytes), f"{storage.store.copies} files"))
    for name, disk in (("database", storage.database_disk), ("store", storage.store_disk)):
        if disk:
            rows.append((f"free for the {name}", size(disk.free_bytes), disk.path))
    rows.append(("Valkey", size(report.valkey.used_bytes), ""))
    return _lay_out("Storage", ("what", "size", ""), rows)


def _tell_stuck(report: Report) -> list[str]:
    lines = []
    for stuck in report.stuck:
        lines += [f"{stuck.title}: {stuck.count}. {stuck.advice}"]
        lines += [f"  {row.text}" for row in stuck.rows]
    return ["STUCK", *(lines or ["nothing"])]
