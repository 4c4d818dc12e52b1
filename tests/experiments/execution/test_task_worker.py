"""Whoever writes to Valkey gets nothing run but the tasks of Tare: attacks on a real server."""

from __future__ import annotations

import json
import logging
import os
import pickle
import re
import subprocess
import textwrap
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import django_rq
import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django_rq.urls import get_admin_urlpatterns
from pytest_django import DjangoCaptureOnCommitCallbacks
from redis import Redis
from redis import exceptions as redis_exceptions
from redis.exceptions import AuthenticationError, NoPermissionError
from rq.cron import get_cron_job_history_key
from rq.exceptions import DequeueTimeout, DeserializationError
from rq.job import Job
from rq.registry import StartedJobRegistry

from experiments import notify
from experiments.execution import tasks
from experiments.execution.task_worker import TASKS, NotAsked, TaskJob, TaskWorker
from experiments.models import Cluster
from standalone import children
from standalone.valkey import Valkey, find_binary
from tests.factories import AdminFactory
from tests.services import with_database

pytestmark = pytest.mark.django_db

TICK = "experiments.execution.tasks.tick"
HERE = "tests.experiments.execution.test_task_worker"
TRACE = "TARE_TEST_TRACE"
QUEUE = sorted(settings.RQ_QUEUES).index("default")


def leave_trace(*arguments: object, **named: object) -> None:
    """Do what must never be done for somebody who can only write to Valkey."""
    Path(os.environ[TRACE]).touch()


class Trace:
    """Leaves one when it is unpickled."""

    def __reduce__(self) -> Any:
        return leave_trace, ()


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(TRACE, str(tmp_path / "trace"))
    return tmp_path / "trace"


@pytest.fixture
def valkey() -> Redis:
    connection: Redis = django_rq.get_queue().connection
    connection.flushdb()
    return connection


def work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a worker do what is there, and return."""
    worker = TaskWorker(django_rq.get_queue())
    monkeypatch.setattr(worker, "_install_signal_handlers", lambda: None)
    worker.work(burst=True, logging_level="WARNING")


def data(name: object, /, *arguments: object, instance: object = None, **named: object) -> bytes:
    return zlib.compress(json.dumps([name, instance, arguments, named]).encode())


def job_hash(**columns: Any) -> dict[str, Any]:
    now = "2026-11-22T12:00:00.000000Z"
    return {
        "created_at": now,
        "enqueued_at": now,
        "origin": "default",
        "status": "queued",
    } | columns


def write(valkey: Redis, name: str = "evil", **columns: Any) -> None:
    """Write a job as any client can, without RQ."""
    valkey.hset(f"rq:job:{name}", mapping=job_hash(**columns))
    valkey.sadd("rq:queues", "rq:queue:default")
    valkey.rpush("rq:queue:default", name)


ATTACKS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "a function of Python": lambda path: {"data": data("os.mkdir", str(path))},
    "a program": lambda path: {"data": data("subprocess.call", ["touch", str(path)])},
    "a function with names": lambda path: {"data": data("pathlib.Path", name=str(path))},
    "a function of Tare": lambda path: {"data": data(f"{HERE}.leave_trace")},
    "another function of the module": lambda path: {
        "data": data("experiments.execution.tasks.enqueue_tick", 1)
    },
    "a name that a task's module imports": lambda path: {
        "data": data("experiments.execution.tasks.close_old_connections")
    },
    "a method of a value": lambda path: {"data": data("format", 1, instance="{0}")},
    "a method that is a task's name": lambda path: {"data": data(TICK, 1, instance="x")},
    "no name": lambda path: {"data": data(None)},
    "a list as a name": lambda path: {"data": data([TICK], 1)},
    "two numbers": lambda path: {"data": data(TICK, 1, 2)},
    "no number": lambda path: {"data": data(TICK)},
    "a text": lambda path: {"data": data(TICK, "1")},
    "a truth": lambda path: {"data": data(TICK, True)},
    "a fraction": lambda path: {"data": data(TICK, 1.5)},
    "less than one": lambda path: {"data": data(TICK, 0)},
    "more than there can be": lambda path: {"data": data(TICK, 2**63)},
    "a list": lambda path: {"data": data(TICK, [1])},
    "a named argument": lambda path: {"data": data(TICK, 1, cluster_pk=1)},
    "a callback that it went well": lambda path: {
        "data": data(TICK, 1), "success_callback_name": f"{HERE}.leave_trace"
    },
    "a callback that it failed": lambda path: {
        "data": data("none.none"), "failure_callback_name": f"{HERE}.leave_trace"
    },
    "a callback that it was stopped": lambda path: {
        "data": data(TICK, 1), "stopped_callback_name": f"{HERE}.leave_trace"
    },
    "a web hook": lambda path: {
        "data": data(TICK, 1),
        "webhooks": json.dumps([{"url": "http://127.0.0.1:1/", "job_status": "failed"}]),
    },
    "repeats": lambda path: {"data": data(TICK, 1), "repeats_left": 5, "repeat_intervals": "[0]"},
    "retries": lambda path: {"data": data("none.none"), "retries_left": 9},
    "dependencies": lambda path: {"data": data(TICK, 1), "dependency_ids": '["x"]'},
    "a group": lambda path: {"data": data(TICK, 1), "group_id": "x"},
    "pickled data": lambda path: {"data": pickle.dumps((TICK, None, Trace(), {}))},
    "pickled meta data": lambda path: {"data": data(TICK, 1), "meta": pickle.dumps(Trace())},
    "a pickled result": lambda path: {"data": data(TICK, 1), "result": pickle.dumps(Trace())},
    "a column that nobody knows": lambda path: {"data": data(TICK, 1), "job_class": "x"},
    "brackets": lambda path: {"data": b"[" * 200_000},
    "bytes": lambda path: {"data": b"\xff\x00"},
    "a column of bytes": lambda path: {"data": data(TICK, 1), b"\xff": b"x"},
    "a state that is none": lambda path: {"data": data(TICK, 1), "status": "evil"},
    "a date that is none": lambda path: {"data": data(TICK, 1), "created_at": "evil"},
    "a time that is none": lambda path: {"data": data(TICK, 1), "result_ttl": "evil"},
    "no data": lambda path: {"description": "evil"},
}  # fmt: skip


@pytest.mark.parametrize("what", ATTACKS)
def test_whatever_is_written_nothing_of_it_runs(
    what: str,
    valkey: Redis,
    trace: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("experiments.execution.find_visitor", lambda pk: "")
    monkeypatch.setattr("experiments.execution.tick", asked.append)
    made = ATTACKS[what](trace)
    columns = {name: value for name, value in job_hash().items() if name not in made}
    valkey.hset("rq:job:evil", mapping={**columns, **made})
    valkey.sadd("rq:queues", "rq:queue:default")
    valkey.rpush("rq:queue:default", "evil")
    with caplog.at_level(logging.ERROR):
        work(monkeypatch)
    assert not trace.exists()
    assert asked == []
    assert valkey.llen("rq:queue:default") == 0
    assert "Refused job 'evil'" in caplog.text


def test_the_tasks_are_run_by_their_names(
    valkey: Redis,
    here: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("experiments.execution.find_visitor", lambda pk: "")
    monkeypatch.setattr("experiments.execution.tick", asked.append)
    with django_capture_on_commit_callbacks(execute=True):
        notify.enqueue_tick(here.pk)
    write(valkey, "by-hand", data=data(TICK, here.pk + 1))
    work(monkeypatch)
    assert asked == [here.pk, here.pk + 1]


def test_a_name_that_is_none_stops_no_worker(
    valkey: Redis, here: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("experiments.execution.find_visitor", lambda pk: "")
    monkeypatch.setattr("experiments.execution.tick", asked.append)
    for name in ("../x y", "", "\n", "a" * 5000):
        write(valkey, name, data=data("os.mkdir", "x"))
    valkey.rpush("rq:queue:default", "of nothing", "of-nothing")
    write(valkey, "ours", data=data(TICK, here.pk))
    work(monkeypatch)
    assert asked == [here.pk]
    assert "Refused job '../x y'" in caplog.text


def test_every_task_takes_the_key_of_a_row() -> None:
    assert TICK in TASKS
    for name, function in TASKS.items():
        job = TaskJob.create(name, (5,), connection=django_rq.get_queue().connection)
        assert job.why_not_run() == "", name
        assert len(function.__annotations__) == 2, "one argument and what is returned"
    with pytest.raises(NotAsked):
        TaskJob.create("os.mkdir", ("x",), connection=django_rq.get_queue().connection).perform()


def test_workers_run_whatever_tare_asks_for() -> None:
    """A task that only one side knows would be asked for again and again, and always refused."""
    own = {
        f"{task.__module__}.{name}"
        for name, task in vars(tasks).items()
        if getattr(task, "__module__", "") == tasks.__name__
        and getattr(task, "__annotations__", {}).get("return") == "str"
    }
    assert own == TASKS.keys()
    named = {"tick", *notify.VISITS.values(), "deliver", "recur"}
    named |= {"send", "receive", "copy_file", "keep", "watch", "find_changes", "deposit"}
    named |= {"store_values"}
    assert {f"{notify.TASKS}.{name}" for name in named} == TASKS.keys()


def test_what_looks_abandoned_calls_nobody(
    valkey: Redis, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker tidies up jobs whose worker died, and would call back that they failed."""
    callback = f"{HERE}.leave_trace"
    for name in ("ours", "theirs"):
        columns = job_hash(data=data(TICK, 1), failure_callback_name=callback, status="started")
        valkey.hset(f"rq:job:{name}", mapping=columns)
        valkey.zadd("rq:wip:default", {f"{name}:execution": time.time() - 60})
    work(monkeypatch)
    valkey.zadd("rq:wip:default", {"theirs:execution": time.time() - 60})
    StartedJobRegistry("default", valkey).cleanup()  # as pages do, with RQ's own class of jobs
    assert not trace.exists()


def test_rq_itself_imports_and_unpickles_nothing(valkey: Redis, trace: Path) -> None:
    """Its pages and commands use its own class of jobs, some without naming a serializer."""
    write(valkey, "named", data=data(f"{HERE}.leave_trace"), meta=pickle.dumps(Trace()))
    job = Job.fetch("named", connection=valkey)
    assert job.func is None
    write(valkey, "pickled", data=pickle.dumps((f"{HERE}.leave_trace", Trace(), (), {})))
    with pytest.raises(DeserializationError):
        Job.fetch("pickled", connection=valkey).perform()
    assert not trace.exists()


def test_no_page_of_the_queues_imports_or_unpickles(valkey: Redis, trace: Path) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(AdminFactory())
    callback = f"{HERE}.leave_trace"

    def write_anew() -> None:
        valkey.flushdb()
        evil = {"meta": pickle.dumps(Trace()), "failure_callback_name": callback}
        write(valkey, "evil", data=data(TICK, 1), result=pickle.dumps(Trace()), **evil)
        late = time.time() + 600
        valkey.zadd("rq:wip:default", {"evil:old": time.time() - 60, "evil:new": late})
        for kind in ("failed", "finished", "deferred", "scheduled"):
            valkey.zadd(f"rq:{kind}:default", {"evil": late})
        cron = {"func_name": callback, "name": "evil", "queue_name": "gone", "interval": 60}
        times = {"hostname": "x", "pid": "1", "created_at": job_hash()["created_at"]}
        scheduler = {**times, "name": "evil", "cron_jobs": json.dumps([cron])}
        valkey.hset("rq:cron_scheduler:evil", mapping=scheduler)
        valkey.zadd("rq:cron_schedulers", {"evil": late})
        valkey.zadd(get_cron_job_history_key("evil"), {"evil": 1})

    answers = {}
    for pattern in get_admin_urlpatterns("django_rq_"):
        name = f"admin:{pattern.name}"
        known = {"job_id": "evil", "scheduler_name": "evil", "cron_job_name": "evil"}
        numbers = {"queue_index": QUEUE, "connection_index": 0, "scheduler_index": 0}
        known |= {"key": "evil", "result_id": "1-1", **numbers}
        arguments = {one: known[one] for one in pattern.pattern.converters}
        address = reverse(name, kwargs=arguments)
        for action in ("", "stop", "requeue", "delete"):
            write_anew()
            asked = {"action": action, "job_ids": ["evil"]}
            answers[name, action] = (
                client.post(address, asked) if action else client.get(address)
            ).status_code
            assert not trace.exists(), (name, action)
    assert answers["admin:django_rq_cron_job_detail", ""] == 200
    assert answers["admin:django_rq_started_jobs", ""] == 200
    assert answers["admin:django_rq_actions", "stop"] == 302


def test_the_socket_is_for_its_own_user(tmp_path: Path) -> None:
    for folder in (tmp_path / "it's here?", tmp_path / ("long" * 30)):
        server = Valkey(folder)
        server.start()
        try:
            assert Redis.from_url(server.url).ping()
            place = server.socket.parent
            assert place.stat().st_mode & 0o077 == 0
            assert server.socket.stat().st_mode & 0o077 == 0
            listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True)
            assert f"pid={server.poll() or server._child.pid}," not in listening.stdout  # type: ignore[union-attr]
            if os.geteuid() == 0:
                touch = ["setpriv", "--reuid=65534", "--clear-groups", "test", "-e", server.socket]
                assert subprocess.run(touch, check=False).returncode
        finally:
            server.stop()


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("unix:///a/it%27s?db=0", "unix:///a/it%27s?db=3"),
        ("redis://tare:secret@valkey:6379/0", "redis://tare:secret@valkey:6379/3"),
        ("redis://localhost", "redis://localhost/3"),
    ],
)
def test_each_process_of_the_tests_has_a_database_of_its_own(url: str, other: str) -> None:
    assert with_database(url, 3) == other


# What docker-compose.yml starts


@pytest.fixture
def composed(tmp_path: Path) -> Iterator[str]:
    """The server that docker-compose starts, by its own command, on a free port of loopback."""
    service = (settings.BASE_DIR / "docker-compose.yml").read_text().partition("  valkey:\n")[2]
    command = textwrap.dedent(service.partition("      - |\n")[2].partition("    networks:")[0])
    command = command.replace("$$", "$").replace("/tmp/users.acl", str(tmp_path / "users.acl"))
    assert command.count(str(tmp_path)) == 2
    (tmp_path / "valkey-server").symlink_to(find_binary())
    port = children.find_free_port()
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "VALKEY_PASSWORD": "it-is-a-secret"}
    child = children.start(
        ["sh", "-c", f"{command.strip()} --bind 127.0.0.1 --port {port}"],
        env=environment,
        log=tmp_path / "log",
    )
    children.wait_until(lambda: children.is_listening(port), "Valkey", child=child)
    yield f"127.0.0.1:{port}/0"
    children.terminate(child)
    children.wait_or_kill([child], seconds=1)


def test_a_worker_asks_for_an_absent_valkey_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = TaskWorker(django_rq.get_queue())
    pauses: list[float] = []

    def fail(*arguments: object, **named: object) -> None:
        if len(pauses) < 20:
            raise redis_exceptions.ConnectionError
        raise DequeueTimeout(1, "queue")

    monkeypatch.setattr(worker.queue_class, "dequeue_any", fail)
    monkeypatch.setattr(time, "sleep", pauses.append)
    worker.dequeue_job_and_maintain_ttl(1, max_idle_time=0)
    assert len(pauses) == 20
    assert max(pauses) <= 5


def test_in_docker_the_worker_may_do_what_it_needs_and_no_more(
    composed: str,
    here: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("experiments.execution.find_visitor", lambda pk: "")
    monkeypatch.setattr("experiments.execution.tick", asked.append)
    ours = Redis.from_url(f"redis://tare:it-is-a-secret@{composed}")
    queue = django_rq.get_queue()
    monkeypatch.setattr(queue, "connection", ours)
    monkeypatch.setattr(django_rq, "get_queue", lambda name, **_: queue)
    with django_capture_on_commit_callbacks(execute=True):
        notify.enqueue_tick(here.pk)
    write(ours, "evil", data=data("os.mkdir", "x"), failure_callback_name="os.mkdir")
    worker = TaskWorker(queue)
    monkeypatch.setattr(worker, "_install_signal_handlers", lambda: None)
    worker.work(burst=True, logging_level="WARNING")
    assert asked == [here.pk]
    for denied in (("CONFIG", "GET", "*"), ("SET", "x", "1"), ("SHUTDOWN",), ("FLUSHALL",)):
        with pytest.raises(NoPermissionError):
            ours.execute_command(*denied)
    for url in (f"redis://{composed}", f"redis://:it-is-a-secret@{composed}"):
        with pytest.raises((AuthenticationError, NoPermissionError)):
            Redis.from_url(url).lpush("rq:queue:default", "evil")


def test_in_docker_the_jobs_of_the_lab_reach_no_database() -> None:
    text = (settings.BASE_DIR / "docker-compose.yml").read_text()
    services = text.partition("\nservices:\n")[2].partition("\nnetworks:\n")[0]
    parts = re.split(r"^  (\w+):\n", services, flags=re.MULTILINE)[1:]
    networks = {
        name: re.search(r"^    networks: \[(.*)\]$", body, re.MULTILINE)
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }
    listed = {name: found[1].split(", ") for name, found in networks.items() if found}
    assert listed == {
        "postgres": ["inside"],
        "valkey": ["inside"],
        "worker": ["inside", "clusters"],
        "bulk": ["inside", "clusters"],
        "lab": ["clusters"],
    }
