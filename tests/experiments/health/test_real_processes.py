"""What is known of real workers and clocks: that they run, ended in order, or were killed."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.core.management import call_command

from experiments.health.processes import read_processes
from tests.conftest import pause_longer
from tests.experiments.execution.test_processes import Site

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def site(tmp_path: Path, home: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.stop()


def wait_for(condition: Callable[[], object]) -> None:
    pauses = pause_longer()
    while not condition():
        next(pauses)


def states() -> dict[str, str]:
    return {process.sign.service: process.state for process in read_processes()}


def test_a_worker_and_a_clock_are_seen_to_run_to_end_and_to_die(site: Site) -> None:
    worker, clock = site.start("worker"), site.start("clock")
    wait_for(lambda: states() == {"worker": "running", "clock": "running"})
    pids = {process.sign.pid for process in read_processes()}
    assert pids == {worker.pid, clock.pid}
    call_command("status", "worker", "clock", "--here")
    worker.kill()
    worker.wait()
    clock.terminate()
    assert clock.wait() == 0
    assert states() == {"worker": "lost", "clock": "ended"}, "at once"
    assert {process.sign.host for process in read_processes()} == {socket.gethostname()}
    again = site.start("worker")
    wait_for(lambda: [row.state for row in read_processes()] == ["running", "ended", "lost"])
    again.terminate()
    assert again.wait() == 0
    wait_for(lambda: "running" not in states().values())
    assert sorted(row.state for row in read_processes()) == ["ended", "ended", "lost"]
