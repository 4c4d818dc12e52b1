"""Workers, clocks and servers die, or are several: each run is executed once all the same."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.faults import children
from tests.faults.page_texts import PAGE_TEXTS
from tests.faults.points import POINTS
from tests.faults.site import Load, Reader, Site

Make = Callable[..., Load]
KILLED = -signal.SIGKILL


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_that_is_killed(site: Site, make_load: Make, point: str) -> None:
    load = make_load()
    if POINTS[point].is_late:
        load.gate.touch()
    first = site.start(children.visit, load.cluster.pk, point, load.work)
    first.join(60)
    assert first.exitcode == KILLED, f"{point} was not reached\n{site.read_log()}"
    site.start(children.visit, load.cluster.pk)
    account = site.finish(load)
    assert account.executions == account.runs == 2


def test_two_visits_at_once(site: Site, make_load: Make) -> None:
    load = make_load(blocks=2)
    for _ in range(2):
        site.start(children.visit, load.cluster.pk)
    account = site.finish(load)
    assert account.executions == account.runs == 4


def test_three_workers_and_two_clocks_of_which_some_are_killed(site: Site, make_load: Make) -> None:
    load = make_load(blocks=2)
    workers = [site.start(children.run_worker) for _ in range(3)]
    clocks = [site.start(children.run_clock) for _ in range(2)]
    site.wait_until(load.experiment.runs.filter(state="running").exists)
    for process in (workers[0], clocks[0]):
        process.kill()
    account = site.finish(load)
    assert account.executions == account.runs == 4


def test_valkey_is_killed(site: Site, make_load: Make) -> None:
    load = make_load()
    for work in (children.run_worker, children.run_clock):
        site.start(work)
    site.wait_until(load.experiment.runs.filter(state="running").exists)
    reader = Reader(load)
    site.kill_valkey()
    assert PAGE_TEXTS["Valkey is killed"] in reader.read("operations")
    site.start_servers()
    account = site.finish(load)
    assert account.executions == account.runs == 2


def test_postgresql_is_killed(site: Site, make_load: Make) -> None:
    load = make_load()
    for work in (children.run_worker, children.run_clock):
        site.start(work)
    site.wait_until(load.experiment.runs.filter(state="running").exists)
    reader = Reader(load)
    site.kill_postgres()
    assert PAGE_TEXTS["PostgreSQL is killed"] in reader.read("experiment")
    site.start_servers()
    account = site.finish(load)
    assert account.executions == account.runs == 2


@pytest.mark.parametrize("hours", [1, -1])
def test_the_clock_is_turned(site: Site, make_load: Make, hours: float) -> None:
    """What was written by the old time keeps nobody waiting."""
    load = make_load()
    first = site.start(children.visit_by_another_clock, load.cluster.pk, hours)
    site.wait_until(load.experiment.runs.filter(state="running").exists)
    first.kill()
    site.start(children.visit, load.cluster.pk)
    account = site.finish(load)
    assert account.executions == account.runs == 2
