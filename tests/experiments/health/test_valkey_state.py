"""What is read of Valkey: from a real one, from one that is away or hangs, and from nonsense."""

from __future__ import annotations

import os
import signal
import socket
from datetime import timedelta

import pytest
import redis
from django.conf import settings as site
from django.utils import timezone
from pytest_django import Settings
from rq import Queue as RQQueue
from rq.serializers import JSONSerializer

from experiments.execution.task_worker import TaskJob, TaskWorker
from experiments.health import valkey as state
from experiments.health.status_report import find_valkey_problems
from experiments.health.valkey import OWN, Valkey, read_valkey
from experiments.notify import name_own_queue
from standalone.valkey import Valkey as Server

TICK = "experiments.execution.tasks.tick"


def make_queue(server: Server, name: str = "default") -> RQQueue:
    connection = redis.Redis.from_url(server.url)
    return RQQueue(name, connection=connection, serializer=JSONSerializer, job_class=TaskJob)


def test_tells_of_queues_and_their_oldest_task(own_valkey: Server) -> None:
    queue = make_queue(own_valkey)
    for pk in (1, 2, 3):
        queue.enqueue(TICK, pk)
    default, bulk, _ = read_valkey().queues
    assert (default.name, default.waiting, default.failed) == ("default", 3, 0)
    assert default.oldest_at is not None
    assert timedelta(0) <= timezone.now() - default.oldest_at < timedelta(minutes=1)
    assert (bulk.waiting, bulk.oldest_at) == (0, None)


def test_tells_of_workers_and_what_they_do(own_valkey: Server) -> None:
    queue = make_queue(own_valkey)
    job = queue.enqueue(TICK, 42)
    worker = TaskWorker(queue)
    worker.register_birth()
    worker.set_current_job_id(job.id)
    worker.increment_successful_job_count()
    record = read_valkey().workers[socket.gethostname(), os.getpid()]
    assert (record.task, record.key, record.done, record.failed) == ("tick", 42, 1, 0)


def test_adds_up_the_slots_of_a_process(own_valkey: Server) -> None:
    queue = make_queue(own_valkey)
    slots = [TaskWorker(queue) for _ in range(3)]
    for slot in slots:
        slot.register_birth()
        slot.increment_successful_job_count()
    for slot, task in zip(slots, ("tick", "copy_file"), strict=False):
        slot.set_current_job_id(queue.enqueue(f"experiments.execution.tasks.{task}", 7).id)
    record = read_valkey().workers[socket.gethostname(), os.getpid()]
    assert (record.slots, record.busy, record.done, record.task) == (3, 2, 3, "copy_file")


def test_a_worker_says_again_who_it_is_when_valkey_was_empty(own_valkey: Server) -> None:
    worker = TaskWorker(make_queue(own_valkey))
    worker.register_birth()
    worker.heartbeat()
    own_valkey.stop()
    own_valkey.start()
    worker.set_state("idle")  # writes without asking whether anything is there
    assert read_valkey().workers == {}
    worker.heartbeat()
    assert list(read_valkey().workers) == [(socket.gethostname(), os.getpid())]


def test_adds_up_the_queues_of_single_processes(own_valkey: Server) -> None:
    for token in ("a", "b"):
        make_queue(own_valkey, name_own_queue(token)).enqueue(TICK, 1)
    (own,) = [queue for queue in read_valkey(["a", "b", "c"]).queues if queue.name == OWN]
    assert (own.waiting, own.under_way, own.failed) == (2, 0, 0)


def test_tells_of_the_server(own_valkey: Server) -> None:
    state = read_valkey()
    assert state.problem == ""
    assert state.used_bytes
    assert state.most_bytes is None, "no limit is set"
    assert state.started_at is not None
    assert timezone.now() - state.started_at < timedelta(minutes=1)
    assert find_valkey_problems(state) == []


def test_says_why_it_does_not_answer(settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/socket?db=0"
    state = read_valkey()
    assert "/nowhere/socket" in state.problem
    assert state.queues == ()
    (problem,) = find_valkey_problems(state)
    assert (problem.title, problem.is_essential) == ("Valkey does not answer", True)
    assert "nothing is lost" in problem.consequence


def test_one_that_hangs_does_not_hang_whoever_asks(
    own_valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "TIMEOUT_SECONDS", 0.2)
    assert own_valkey.child
    os.kill(own_valkey.child.pid, signal.SIGSTOP)
    try:
        assert read_valkey().problem
    finally:
        os.kill(own_valkey.child.pid, signal.SIGCONT)


def test_nonsense_in_it_is_left_out(own_valkey: Server) -> None:
    connection = redis.Redis.from_url(own_valkey.url)
    connection.set("rq:queue:default", "no list")
    connection.rpush("rq:queue:bulk", b"\xff\x00odd")
    connection.hset("rq:job:\ufffdodd", "enqueued_at", "yesterday")
    connection.sadd("rq:workers", "rq:worker:a", "rq:worker:b", "rq:worker:c", b"\xff")
    connection.hset("rq:worker:a", mapping={"pid": "9" * 40, "hostname": b"\xff\x00"})
    connection.hset("rq:worker:b", mapping={"pid": "7", "current_job": "x", "hostname": "h"})
    connection.hset("rq:job:x", "description", "os.system('rm')")
    connection.set("rq:worker:c", "no hash")
    state = read_valkey()
    assert state.problem == ""
    assert [queue.waiting for queue in state.queues if queue.name == "default"] == [0]
    assert [queue.oldest_at for queue in state.queues] == [None, None, None]
    assert list(state.workers) == [("h", 7)]
    assert state.workers["h", 7].task == ""
    connection.set("rq:workers", "no set")
    assert read_valkey().workers == {}


def test_its_memory_may_be_nearly_full() -> None:
    (problem,) = find_valkey_problems(Valkey(used_bytes=95, most_bytes=100))
    assert "nearly full" in problem.title
    assert not problem.is_essential
    assert find_valkey_problems(Valkey(used_bytes=50, most_bytes=100)) == []


def test_each_queue_of_the_site_is_told(own_valkey: Server) -> None:
    assert [queue.name for queue in read_valkey().queues] == [*site.RQ_QUEUES, OWN]
