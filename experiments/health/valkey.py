"""Queues and workers as Valkey knows them.

All of it may be lost, and whoever can write there may write anything: what makes no sense is left
out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import redis
from django.conf import settings
from django.utils import timezone
from redis.exceptions import RedisError

from experiments.notify import name_own_queue

TIMEOUT_SECONDS = 2.0  # a server that hangs must not hang the page
MOST_WORKERS = 500  # each slot of a process is one
WORKERS = "rq:workers"
OWN = "of one process"
PURPOSES = {
    OWN: "visits that a process makes that has the connection already",
    "default": "visits to clusters, checks, connection tests",
    "bulk": "images on their way, copies of files of runs",
}
TASK = re.compile(r"experiments\.execution\.tasks\.(\w{1,40})\((\d{1,18})\)")


@dataclass(frozen=True)
class Queue:
    """A queue: its tasks, and since when the oldest waits."""

    name: str
    waiting: int = 0
    oldest_at: datetime | None = None
    under_way: int = 0
    failed: int = 0

    @property
    def purpose(self) -> str:
        """Return what its tasks are for, in words."""
        return PURPOSES.get(self.name, "")


@dataclass(frozen=True)
class RQWorker:
    """What RQ has written down of a process: all its slots, with one of their tasks.

    `key` is that of the task's row.
    """

    host: str
    pid: int
    slots: int = 1
    busy: int = 0
    done: int = 0
    failed: int = 0
    task: str = ""
    key: int | None = None


@dataclass(frozen=True)
class Valkey:
    """The server, and what it holds; or why it does not answer."""

    problem: str = ""
    version: str = ""
    started_at: datetime | None = None
    used_bytes: int | None = None
    most_bytes: int | None = None  # None: no limit
    queues: tuple[Queue, ...] = ()
    workers: Mapping[tuple[str, int], RQWorker] = field(default_factory=dict)  # by host and pid


def read_valkey(processes: Sequence[str] = ()) -> Valkey:
    """Ask Valkey, at most for a few seconds. Without an answer there is a `problem`.

    `processes` are the tokens of those that may have queues of their own.
    """
    try:
        # From the address alone: RQ's own connections wait for as long as it takes.
        with redis.Redis.from_url(
            settings.REDIS_URL,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
        ) as connection:
            info = connection.info()
            return Valkey(
                version=_text(info.get("valkey_version") or info.get("redis_version")),
                started_at=_find_start(_number(info.get("uptime_in_seconds"))),
                used_bytes=_number(info.get("used_memory")),
                most_bytes=_number(info.get("maxmemory")) or None,
                queues=(
                    *(_read_queue(connection, name) for name in settings.RQ_QUEUES),
                    _read_own_queues(connection, processes),
                ),
                workers=_read_workers(connection),
            )
    except (RedisError, OSError, ValueError) as error:
        return Valkey(problem=str(error) or type(error).__name__)


def _read_queue(connection: Any, name: str) -> Queue:
    with connection.pipeline(transaction=False) as pipeline:
        pipeline.llen(f"rq:queue:{name}")
        pipeline.lindex(f"rq:queue:{name}", 0)
        pipeline.zcard(f"rq:wip:{name}")
        pipeline.zcard(f"rq:failed:{name}")
        waiting, oldest, under_way, failed = pipeline.execute(raise_on_error=False)
    (enqueued,) = _ask_all(connection, [f"rq:job:{_text(oldest)}"], "enqueued_at")
    return Queue(
        name=name,
        waiting=_number(waiting) or 0,
        oldest_at=_time(enqueued),
        under_way=_number(under_way) or 0,
        failed=_number(failed) or 0,
    )


def _read_own_queues(connection: Any, processes: Sequence[str]) -> Queue:
    """Return the queues of single processes as one."""
    with connection.pipeline(transaction=False) as pipeline:
        for token in processes:
            pipeline.llen(f"rq:queue:{name_own_queue(token)}")
            pipeline.zcard(f"rq:wip:{name_own_queue(token)}")
            pipeline.zcard(f"rq:failed:{name_own_queue(token)}")
        counts = [_number(answer) or 0 for answer in pipeline.execute(raise_on_error=False)]
    return Queue(OWN, sum(counts[::3]), None, sum(counts[1::3]), sum(counts[2::3]))


def _read_workers(connection: Any) -> dict[tuple[str, int], RQWorker]:
    try:
        keys = sorted(connection.smembers(WORKERS))[:MOST_WORKERS]
    except redis.ResponseError:  # the key holds something else
        return {}
    rows = [row for row in _ask_all(connection, keys, None) if isinstance(row, dict)]
    jobs = [f"rq:job:{_text(row.get(b'current_job'))}" for row in rows]
    workers: dict[tuple[str, int], RQWorker] = {}
    for row, description in zip(rows, _ask_all(connection, jobs, "description"), strict=True):
        worker = _read_worker(row, _text(description))
        if worker.pid:
            place = worker.host, worker.pid
            workers[place] = _add_up(workers[place], worker) if place in workers else worker
    return workers


def _ask_all(connection: Any, keys: Sequence[Any], column: str | None) -> list[Any]:
    """Return one column of each hash, or all of them, in one go."""
    with connection.pipeline(transaction=False) as pipeline:
        for key in keys:
            _ = pipeline.hgetall(key) if column is None else pipeline.hget(key, column)
        answers: list[Any] = pipeline.execute(raise_on_error=False)
    return answers


def _add_up(first: RQWorker, second: RQWorker) -> RQWorker:
    """Return what two slots of one process do; of their tasks, one that is no visit if there is."""
    shown = second if first.task in ("", "tick") and second.task else first
    return replace(
        shown,
        slots=first.slots + second.slots,
        busy=first.busy + second.busy,
        done=first.done + second.done,
        failed=first.failed + second.failed,
    )


def _read_worker(columns: Mapping[bytes, bytes], description: str) -> RQWorker:
    task = TASK.fullmatch(description)
    return RQWorker(
        host=_text(columns.get(b"hostname")),
        pid=_number(columns.get(b"pid")) or 0,
        busy=int(bool(columns.get(b"current_job"))),
        done=_number(columns.get(b"successful_job_count")) or 0,
        failed=_number(columns.get(b"failed_job_count")) or 0,
        task=task[1] if task else "",
        key=int(task[2]) if task else None,
    )


def _text(value: object) -> str:
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    return value[:300].replace("\0", "") if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    if isinstance(value, int):
        return value
    text = _text(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _find_start(uptime_seconds: int | None) -> datetime | None:
    try:
        return timezone.now() - timedelta(seconds=uptime_seconds or 0)
    except OverflowError:
        return None


def _time(value: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(_text(value))
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
