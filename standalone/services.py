"""Services that are kept alive: what ends is started again, a little later each time.

What ended, when and how stands in a file, which pages read: the database may be what ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

# After one end, at once; after more of them in a row, later and later.
PAUSES = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)  # seconds
STEADY_SECONDS = 60.0  # which ends a row: what ran for as long had started well
# For which a service is late with its heartbeat before it is killed. A clock is late, too, while
# PostgreSQL is away, and a worker that does nothing beats every seven minutes only.
HUNG_SECONDS = 300.0
KILL_SECONDS = 5.0  # which a killed child may take to end: one that waits for a disk takes longer
LOOP = 5  # as many ends in a row are said to be a loop
MOST_ENDS = 50  # which the file keeps
WRITTEN_SECONDS = 60.0  # after which the file is written anew though nothing has changed
LAST_LINES = 5  # of a log, for whoever started the demo


@dataclass(frozen=True)
class End:
    """A service that ended without being told to."""

    service: str
    at: str  # ISO 8601
    exit_code: int | None  # minus the number of a signal; None: nobody saw it
    ran_seconds: float
    was_hung: bool = False  # it did nothing any more, and the supervisor killed it


@dataclass
class Service:
    """A child to keep alive; one that has its work done `once` may end with exit code 0."""

    name: str
    start: Callable[[], subprocess.Popen[bytes]]
    log: Path
    once: bool = False
    ends_whole: bool = False  # with all that is left of its session, which may hold its port
    heartbeat: Path | None = None  # a file that it touches, with the time until which it is good
    child: subprocess.Popen[bytes] | None = None
    ends_in_a_row: int = 0
    started_at: float = 0.0
    resume_at: float = 0.0
    late_since: float | None = None
    problem: str = ""  # why it could not be started at all

    @property
    def is_done(self) -> bool:
        return self.once and self.child is not None and self.child.poll() == 0

    def keep_alive(self, now: float) -> int | None:
        """Start the child if it does not run, after a pause if it has ended; `now` in seconds.

        Return the exit code of one that has ended since the last call.
        """
        if self.child is None:
            if now >= self.resume_at:
                self._start(now)
            return None
        exit_code = self.child.poll()
        if exit_code is None or self.is_done:
            return None
        if self.ends_whole:
            end_session(self.child)
        self.child = None
        self._wait(now, is_steady=now - self.started_at >= STEADY_SECONDS)
        return exit_code

    def is_hung(self, now: float) -> bool:
        """Return whether it has been late with its heartbeat for too long.

        By how long we have seen it late: a machine that slept finds all of them out of date.
        """
        if self.child is None or self.heartbeat is None:
            return False
        try:
            is_late = time.time() > self.heartbeat.stat().st_mtime
        except OSError:  # it has not begun to work, or has no work of that kind
            is_late = False
        if not is_late:
            self.late_since = None
        elif self.late_since is None:
            self.late_since = now
        return self.late_since is not None and now - self.late_since >= HUNG_SECONDS

    def _start(self, now: float) -> None:
        self.started_at, self.late_since = now, None
        try:
            if self.heartbeat:
                self.heartbeat.unlink(missing_ok=True)  # that of the one before
            self.child, self.problem = self.start(), ""
        except OSError as error:  # such as no memory, or no room for the log
            self.problem = str(error)
            self._wait(now, is_steady=False)

    def _wait(self, now: float, *, is_steady: bool) -> None:
        self.ends_in_a_row = 1 if is_steady else self.ends_in_a_row + 1
        self.resume_at = now + PAUSES[min(self.ends_in_a_row, len(PAUSES)) - 1]


def end_session(child: subprocess.Popen[bytes]) -> None:
    """Kill a child that hangs, or what one that has ended has left in its session."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def describe_exit(exit_code: int) -> str:
    """Return how a process ended: `was killed by SIGKILL`, `ended with exit code 1`."""
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"was killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was killed by signal {-exit_code}"


@dataclass
class Supervisor:
    """Keeps services alive, says what ended, and writes it into a file."""

    file: Path
    say: Callable[[str], None]
    services: list[Service] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    was_killed: bool = False  # the one before
    _written: list[Any] = field(default_factory=list)

    def remember(self) -> None:
        """Take over what ended before; a supervisor that did not stop in order has ended, too."""
        try:
            content = json.loads(self.file.read_text())
            self.ends = [End(**end) for end in content["ends"]]
            if not content["stopped"]:
                self.was_killed = True
                self.ends.append(End("supervisor", content["written_at"], None, 0.0))
        except (OSError, ValueError, LookupError, TypeError):
            return  # the first start, or a file that nobody can read

    def keep_alive(self) -> None:
        """Look after every service once."""
        now = time.monotonic()
        for service in self.services:
            was_hung = service.child is not None and service.is_hung(now)
            if service.child and was_hung:
                self.say(f"{service.name} does nothing any more: its heartbeat is late.")
                end_session(service.child)
                with suppress(subprocess.TimeoutExpired):
                    service.child.wait(KILL_SECONDS)
            ran_seconds = now - service.started_at
            exit_code = service.keep_alive(now)
            if exit_code is not None:
                at = datetime.now(UTC).isoformat(timespec="seconds")
                end = End(service.name, at, exit_code, round(ran_seconds, 1), was_hung)
                self.ends.append(end)
                self._tell_end(service, exit_code)
        self.write(stopped=False)

    def write(self, *, stopped: bool) -> None:
        """Write the file, if there is news, and once a minute: it tells until when we lived.

        A full disk keeps nobody from starting services.
        """
        self.ends = self.ends[-MOST_ENDS:]
        rows = [_describe(service) for service in self.services]
        news = [rows, self.ends[-1:], stopped, time.monotonic() // WRITTEN_SECONDS]
        if news == self._written:
            return
        content = {
            "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "pid": os.getpid(),
            "stopped": stopped,
            "services": rows,
            "ends": [vars(end) for end in self.ends],
        }
        with suppress(OSError):
            part = self.file.with_suffix(".part")
            part.write_text(json.dumps(content, indent=1))
            part.chmod(0o600)
            part.replace(self.file)
            self._written = news

    def _tell_end(self, service: Service, exit_code: int) -> None:
        pause = PAUSES[min(service.ends_in_a_row, len(PAUSES)) - 1]
        when = f"in {pause:.0f} s" if pause else "now"
        self.say(
            f"{service.name} {describe_exit(exit_code)}; its log is {service.log}. "
            f"Starting it again {when}."
        )
        if service.ends_in_a_row == LOOP:
            lines = "\n".join(f"  {line}" for line in read_last_lines(service.log))
            self.say(
                f"{service.name} ended {LOOP} times in a row, each time within "
                f"{STEADY_SECONDS:.0f} s of its start. Tare goes on trying, every "
                f"{PAUSES[-1]:.0f} s. The last lines of its log:\n{lines}"
            )


def _describe(service: Service) -> dict[str, Any]:
    """Return what the file says of a service."""
    is_alive = service.child is not None and not service.is_done
    return {
        "name": service.name,
        "state": "done" if service.is_done else "running" if is_alive else "waiting",
        "pid": service.child.pid if service.child and is_alive else None,
        "ends_in_a_row": service.ends_in_a_row,
        "is_loop": service.ends_in_a_row >= LOOP,
        "problem": service.problem,
        "log": str(service.log),
    }


def read_last_lines(path: Path, count: int = LAST_LINES) -> Iterable[str]:
    """Return the last lines of a log; none if it cannot be read."""
    try:
        with path.open("rb") as log:
            log.seek(max(path.stat().st_size - 4096, 0))
            return log.read().decode(errors="replace").splitlines()[-count:]
    except OSError:
        return []
