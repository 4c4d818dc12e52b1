"""Several tasks at once in one worker, and one connection to a cluster however many workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from unittest import mock

import django_rq
import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone
from redis import Redis

from experiments import execution, notify
from experiments.execution import connections, slots, tasks
from experiments.execution.holder import make_token, name_process
from experiments.models import Cluster
from runners.transports import SSH
from tests.conftest import pause_longer
from tests.factories import ClusterFactory

SECONDS = 60


def wait_for(condition: Callable[[], object]) -> None:
    pauses = pause_longer()
    waited = threading.Event()
    timer = threading.Timer(SECONDS, waited.set)
    timer.start()
    try:
        while not condition():
            assert not waited.is_set(), "it did not happen in time"
            next(pauses)
    finally:
        timer.cancel()


@pytest.fixture
def valkey() -> Iterator[Redis]:
    """An empty Valkey; other tests would see the tasks that are left."""
    server: Redis = django_rq.get_queue().connection
    server.flushdb()
    yield server
    server.flushdb()


@pytest.fixture
def running(valkey: Redis) -> Iterator[slots.Slots]:
    """Three slots, in threads of this process, whose tasks are replaced."""
    group = slots.Slots([django_rq.get_queue()], 3)
    with mock.patch.object(slots.signal, "signal"):
        thread = threading.Thread(target=group.run, daemon=True)
        thread.start()
        yield group
        group.stopping.set()
        thread.join(SECONDS)
        assert not thread.is_alive()
        # They would take the next test's tasks.
        wait_for(lambda: not [row for row in threading.enumerate() if row.name.startswith("slot")])


def test_one_slot_tidies_up_for_all() -> None:
    turns = slots.Turns()
    assert [turns.take(3600) for _ in range(3)] == [True, False, False]
    assert slots.Turns().take(3600)
    always = slots.Turns()
    assert [always.take(0) for _ in range(2)] == [True, True]


class TestSlots:
    def test_tasks_that_hang_keep_no_other_waiting(
        self, running: slots.Slots, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        go, done = threading.Event(), []

        def visit(pk: int) -> str:
            if pk in (1, 2):
                go.wait(SECONDS)
            done.append(pk)
            return "done"

        monkeypatch.setitem(slots_tasks(), f"{notify.TASKS}.tick", visit)
        for pk in (1, 2, 3, 4, 5):
            notify.enqueue(f"{notify.TASKS}.tick", pk)
        wait_for(lambda: len(done) == 3)
        assert done == [3, 4, 5]
        go.set()
        wait_for(lambda: len(done) == 5)

    def test_a_slot_that_ends_begins_again(
        self, running: slots.Slots, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(slots, "PAUSE_SECONDS", 0.01)
        done: list[int] = []
        execute = slots.Slot.execute_job

        def execute_and_end(self: slots.Slot, *task: Any) -> None:
            execute(self, *task)
            raise RuntimeError("RQ ends its worker over this")

        monkeypatch.setattr(slots.Slot, "execute_job", execute_and_end)
        monkeypatch.setitem(slots_tasks(), f"{notify.TASKS}.tick", done.append)
        for pk in range(1, 8):
            notify.enqueue(f"{notify.TASKS}.tick", pk)
        wait_for(lambda: len(done) == 7)


def slots_tasks() -> dict[str, Any]:
    from experiments.execution.task_worker import TASKS

    return TASKS


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.django_db(transaction=True)
def test_a_worker_ends_in_order_when_it_is_told_to(valkey: Redis, number: int) -> None:
    database = connection.settings_dict
    environment = os.environ | {
        "DATABASE_URL": f"postgresql://{database['USER']}:{database['PASSWORD']}"
        f"@{database['HOST']}:{database['PORT']}/{database['NAME']}",
    }
    worker = subprocess.Popen(
        [sys.executable, "manage.py", "worker", "--slots", "2"],
        cwd=settings.BASE_DIR,
        env=environment,
    )
    try:
        wait_for(lambda: valkey.scard("rq:workers") == 2)
        worker.send_signal(number)
        assert worker.wait(SECONDS) == 0
        assert valkey.scard("rq:workers") == 0
    finally:
        worker.kill()
        worker.wait()


class TestOneQueuedTick:
    def test_a_visit_that_waits_is_not_asked_for_again(self, valkey: Redis) -> None:
        for _ in range(3):
            for pk in (1, 11):
                notify.enqueue(f"{notify.TASKS}.tick", pk)
        notify.enqueue(f"{notify.TASKS}.check", 1)
        queue = django_rq.get_queue()
        waiting = [job.description for job in queue.jobs]
        assert len(waiting) == 3
        assert queue.count == 3

    def test_one_that_has_begun_is(self, valkey: Redis) -> None:
        queue = django_rq.get_queue()
        notify.enqueue(f"{notify.TASKS}.tick", 1)
        queue.pop_job_id()
        notify.enqueue(f"{notify.TASKS}.tick", 1)
        assert queue.count == 1


@pytest.mark.django_db
class TestOneConnection:
    @pytest.fixture
    def cluster(self) -> Cluster:
        row: Cluster = ClusterFactory(poll_seconds=5, last_tick_at=timezone.now())
        return row

    def test_whoever_visited_last_goes_on(
        self, cluster: Cluster, valkey: Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tasks, "close_old_connections", lambda: None)
        other = make_token()
        Cluster.objects.update(visitor=other)
        assert execution.find_visitor(cluster.pk) == other
        assert tasks.tick(cluster.pk) == "handed over"
        queue = notify.get_queue(notify.name_own_queue(other))
        (job_id,) = queue.get_job_ids()
        assert job_id.startswith(f"tick-{cluster.pk}-")
        assert 0 < valkey.ttl(queue.key) <= notify.OWN_QUEUE_SECONDS

    def test_its_own_process_is_no_other(self, cluster: Cluster) -> None:
        Cluster.objects.update(visitor=name_process())
        assert execution.find_visitor(cluster.pk) == ""

    def test_a_visitor_that_has_died_is_none(self, cluster: Cluster) -> None:
        dead = name_process()[:14] + "0" * 9 + name_process()[23:]
        Cluster.objects.update(visitor=dead)
        assert execution.find_visitor(cluster.pk) == ""

    def test_one_that_has_not_come_for_a_while_is_none(self, cluster: Cluster) -> None:
        ago = timezone.now() - timedelta(seconds=16)
        Cluster.objects.update(visitor=make_token(), last_tick_at=ago)
        assert execution.find_visitor(cluster.pk) == ""

    def test_a_visit_writes_down_who_makes_it(self, here: Cluster) -> None:
        assert execution.tick(here.pk) == "done"
        here.refresh_from_db()
        assert here.visitor == name_process()

    def test_a_connection_is_closed_once_another_process_visits(
        self, here: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lost, kept = ClusterFactory(visitor=make_token()), ClusterFactory(visitor=name_process())
        links = {row.pk: (mock.Mock(), mock.Mock(spec=SSH)) for row in (lost, kept)}
        monkeypatch.setattr(connections, "_kept", dict(links))
        monkeypatch.setattr(connections, "_swept_at", float("-inf"))
        execution.tick(here.pk)
        links[lost.pk][1].close.assert_called_once_with()
        links[kept.pk][1].close.assert_not_called()
        assert list(connections._kept) == [kept.pk]

    def test_it_stays_open_where_a_slot_has_taken_the_cluster_back_since_that_was_asked(
        self, here: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Cluster.objects.update(visitor=make_token())
        link = mock.Mock(spec=SSH)
        monkeypatch.setattr(connections, "_kept", {here.pk: (mock.Mock(), link)})
        monkeypatch.setattr(connections, "_swept_at", time.monotonic())
        with connections.connect(here):
            monkeypatch.setattr(connections, "_swept_at", float("-inf"))
            connections._close_what_others_visit()
            link.close.assert_not_called()
        monkeypatch.setattr(connections, "_swept_at", float("-inf"))
        connections._close_what_others_visit()
        link.close.assert_called_once_with()
