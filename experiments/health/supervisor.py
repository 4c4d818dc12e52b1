"""What the supervisor of `make demo` has written down: which services ended, when and how."""

from __future__ import annotations

import json
import math
import signal
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings

SHOWN = timedelta(days=7)
MOST_SHOWN = 10


@dataclass(frozen=True)
class End:
    """A service that ended without being told to, and how."""

    service: str
    at: datetime
    how: str
    ran_seconds: float | None


@dataclass(frozen=True)
class Supervised:
    """A service that the supervisor keeps alive."""

    name: str
    state: str  # running, waiting or done
    pid: int | None
    ends_in_a_row: int
    is_loop: bool
    problem: str
    log: str


@dataclass(frozen=True)
class Supervision:
    """The supervisor's services and their last ends, the newest first."""

    services: tuple[Supervised, ...] = ()
    ends: tuple[End, ...] = ()
    is_stopped: bool = False

    @property
    def newest_ends(self) -> tuple[End, ...]:
        return self.ends[:MOST_SHOWN]

    @property
    def counts(self) -> Mapping[str, int]:
        """Return how often each service ended."""
        return dict(Counter(end.service for end in self.ends))


def read_supervision(now: datetime) -> Supervision | None:
    """Return what the supervisor says; None where there is none, such as under compose."""
    if not settings.SUPERVISOR_FILE:
        return None
    try:
        content = json.loads(Path(settings.SUPERVISOR_FILE).read_text())
        ends = [end for row in _rows(content["ends"]) if (end := _read_end(row))]
        services = [_read_service(row) for row in _rows(content["services"])]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    recent = [end for end in ends if end.at > now - SHOWN]
    newest = sorted(recent, key=lambda end: end.at, reverse=True)
    return Supervision(tuple(services), tuple(newest), bool(content.get("stopped")))


def describe_exit(exit_code: object) -> str:
    """Return how a process ended, by its exit code; minus the number of a signal."""
    if type(exit_code) is not int:
        return "ended, and nobody saw how"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"killed by signal {-exit_code}"


def _rows(value: Any) -> list[Mapping[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _read_end(row: Mapping[str, Any]) -> End | None:
    try:
        at = datetime.fromisoformat(row["at"])
    except (LookupError, TypeError, ValueError):
        return None
    ran = row.get("ran_seconds")
    is_number = isinstance(ran, int | float) and math.isfinite(ran)
    return End(
        service=str(row.get("service", "")),
        at=at if at.tzinfo else at.replace(tzinfo=UTC),
        how="did nothing any more, and was killed"
        if row.get("was_hung") is True
        else describe_exit(row.get("exit_code")),
        ran_seconds=float(ran) if ran and is_number else None,
    )


def _read_service(row: Mapping[str, Any]) -> Supervised:
    ends = row.get("ends_in_a_row")
    return Supervised(
        name=str(row.get("name", "")),
        state=str(row.get("state", "")),
        pid=row["pid"] if isinstance(row.get("pid"), int) else None,
        ends_in_a_row=ends if isinstance(ends, int) else 0,
        is_loop=row.get("is_loop") is True,
        problem=str(row.get("problem", "")),
        log=str(row.get("log", "")),
    )
