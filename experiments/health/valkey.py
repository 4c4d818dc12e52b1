"""Queues and workers as Valkey knows them.

All of it may be lost, and whoever can write there may write anything: what makes no sense is left
out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import redis
from django.conf import settings
from django.utils import timezone
from redis.exceptions import RedisError

TIMEOUT_SECONDS = 2.0  # a server that hangs must not hang the page
MOST_WORKERS = 100
WORKERS = "rq:workers"
PURPOSES = {
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
    """What RQ has written down of a worker. `task` and `key` are of the task that it runs."""

    host: str
    pid: int
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


def read_valkey() -> Valkey:
    """Ask Valkey, at most for a few seconds. Without an answer there is a `problem`."""
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
                queues=tuple(_read_queue(connection, name) for name in settings.RQ_QUEUES),
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
    enqueued = _ask(connection, f"rq:job:{_text(oldest)}", "enqueued_at") if oldest else None
    return Queue(
        name=name,
        waiting=_number(waiting) or 0,
        oldest_at=_time(enqueued),
        under_way=_number(under_way) or 0,
        failed=_number(failed) or 0,
    )


def _read_workers(connection: Any) -> dict[tuple[str, int], RQWorker]:
    try:
        keys = sorted(connection.smembers(WORKERS))[:MOST_WORKERS]
    except redis.ResponseError:  # the key holds something else
        return {}
    with connection.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.hgetall(key)
        answers = pipeline.execute(raise_on_error=False)
    workers: dict[tuple[str, int], RQWorker] = {}
    for row in answers:
        if isinstance(row, dict) and (worker := _read_worker(connection, row)).pid:
            key = worker.host, worker.pid
            workers[key] = _add_up(workers[key], worker) if key in workers else worker
    return workers


def _add_up(first: RQWorker, second: RQWorker) -> RQWorker:
    """Return what two slots of one process do; of their tasks, one that is no visit if there is."""
    shown = second if first.task in ("", "tick") and second.task else first
    return replace(shown, done=first.done + second.done, failed=first.failed + second.failed)


def _read_worker(connection: Any, columns: Mapping[bytes, bytes]) -> RQWorker:
    job = _text(columns.get(b"current_job"))
    description = _text(_ask(connection, f"rq:job:{job}", "description")) if job else ""
    task = TASK.fullmatch(description)
    return RQWorker(
        host=_text(columns.get(b"hostname")),
        pid=_number(columns.get(b"pid")) or 0,
        done=_number(columns.get(b"successful_job_count")) or 0,
        failed=_number(columns.get(b"failed_job_count")) or 0,
        task=task[1] if task else "",
        key=int(task[2]) if task else None,
    )


def _ask(connection: Any, key: str, column: str) -> Any:
    try:
        return connection.hget(key, column)
    except redis.ResponseError:
        return None


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
