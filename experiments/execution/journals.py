"""Journals of jobs: events and times of a record."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from experiments.models import Job, Operation
from runners.records import Record

MOST_NODES = 10_000
"""Names of a job's nodes that are stored."""


def find_journal_line(record: Record, event: str, uid: str | None = None) -> dict[str, Any]:
    """Return the journal's last line about `event` (of run `uid`), or an empty one."""
    lines = [
        line
        for line in record.journal
        if line["event"] == event and (uid is None or line.get("run") == uid)
    ]
    return lines[-1] if lines else {}


def parse_moment(seconds: float | None) -> datetime | None:
    """Return seconds since the epoch as a time in UTC; None stays None."""
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)


def read_nodes(record: Record) -> list[str]:
    """Return the names of all nodes of a job, as its journal has them; none of a job on one."""
    names = find_journal_line(record, "nodes").get("nodes") or ()
    return list(dict.fromkeys(name for name in names if name))[:MOST_NODES]


def read_times(row: Job | Operation, record: Record) -> dict[str, Any]:
    """Return the columns of start and end, by the node's clock if its journal has them."""
    return {
        "started_at": parse_moment(find_journal_line(record, "job started").get("time"))
        or row.started_at,
        "ended_at": parse_moment(find_journal_line(record, "job ended").get("time"))
        or timezone.now(),
    }
