"""The PostgreSQL server of `make demo`: what it holds survives however the last one ended."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from standalone.postgres import STILL_IN_USE, STILL_RUNS, Postgres
from standalone.services import Service, Supervisor
from tests.conftest import pause_longer


def find_checkpointer(server: int) -> int:
    """Return the process id of the checkpointer of this server."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            name = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == server and b"checkpointer" in name:
            return int(folder.name)
    raise AssertionError("the server has no checkpointer")


class Starting(threading.Thread):
    """Starts a server, and lives on: the kernel ends a server with the thread that started it."""

    def __init__(self, server: Postgres) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.has_started, self.may_end = threading.Event(), threading.Event()

    def run(self) -> None:
        self.server.start()
        self.has_started.set()
        self.may_end.wait(120)


@pytest.mark.timeout(120)
def test_a_supervisor_starts_one_that_was_killed_until_it_has_recovered(tmp_path: Path) -> None:
    """The first starts fail while a process of the old one still has the data in its hands."""
    server, said = Postgres(tmp_path / "postgres"), list[str]()
    server.start()
    server._psql("create table kept as select 7 as value").check_returncode()
    service = Service(server.name, server.start_again, tmp_path / "postgres/log")
    service.child = server.child
    supervisor = Supervisor(tmp_path / "services.json", said.append, [service])
    assert server.child
    checkpointer = find_checkpointer(server.child.pid)
    os.kill(checkpointer, signal.SIGSTOP)
    try:
        server.child.kill()
        server.child.wait()
        pauses = pause_longer()
        while STILL_IN_USE not in (tmp_path / "postgres/log").read_bytes():
            supervisor.keep_alive()
            next(pauses)
    finally:
        os.kill(checkpointer, signal.SIGCONT)
    while not server._answers():
        supervisor.keep_alive()
        next(pauses)
    assert server._psql("select value from kept").stdout.strip() == b"7"
    assert said[0].startswith("PostgreSQL was killed by SIGKILL; its log is ")
    server.stop()


@pytest.mark.timeout(120)
def test_it_waits_for_the_last_processes_of_one_that_was_killed(tmp_path: Path) -> None:
    first = Postgres(tmp_path / "postgres", quick=True)
    first.start()
    assert first._child
    checkpointer = find_checkpointer(first._child.pid)
    os.kill(checkpointer, signal.SIGSTOP)  # as one that still writes to a slow disk
    try:
        first._child.kill()
        first._child.wait()
        second = Postgres(tmp_path / "postgres", quick=True)
        starting = Starting(second)
        starting.start()
        pauses = pause_longer()
        while STILL_IN_USE not in (tmp_path / "postgres/log").read_bytes():
            next(pauses)
    finally:
        os.kill(checkpointer, signal.SIGCONT)
    assert starting.has_started.wait(60)
    assert second.poll() is None
    second.stop()
    starting.may_end.set()
    starting.join()


@pytest.mark.timeout(120)
def test_it_waits_for_one_that_still_ends(tmp_path: Path) -> None:
    """As when the supervisor was killed: nobody waits until its server has ended."""
    first = Postgres(tmp_path / "postgres", quick=True)
    first.start()
    second = Postgres(tmp_path / "postgres", quick=True)
    starting = Starting(second)
    starting.start()
    pauses = pause_longer()
    while STILL_RUNS not in (tmp_path / "postgres/log").read_bytes():
        next(pauses)
    first.stop()
    assert starting.has_started.wait(60)
    assert second.poll() is None
    second.stop()
    starting.may_end.set()
    starting.join()
