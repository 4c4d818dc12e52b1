"""Health checks of docker-compose.yml: the page /healthz/, and the script that containers run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import django_rq
import pytest
from django.db import OperationalError, connection
from django.test import Client
from pytest_django import Settings

from dashboard import health_check
from experiments.execution.task_worker import TaskWorker
from experiments.liveness import mark_alive
from experiments.management.commands import clock
from tests.source_tree import BASE

NOBODY_LISTENS = "redis://127.0.0.1:9/0"


def test_the_page_names_both_servers(db: object, client: Client) -> None:
    answer = client.get("/healthz/")
    assert (answer.status_code, answer.content) == (200, b"database: ok\nvalkey: ok\n")
    # What watches sites asks without the content.
    assert client.head("/healthz/").status_code == 200


def test_without_valkey_the_page_says_so_and_the_site_counts_as_well(
    db: object, client: Client, settings: Settings
) -> None:
    settings.REDIS_URL = NOBODY_LISTENS
    answer = client.get("/healthz/")
    assert (answer.status_code, answer.content) == (200, b"database: ok\nvalkey: no answer\n")


def test_without_the_database_the_site_is_unavailable(
    db: object, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OperationalError

    with monkeypatch.context() as patched:
        patched.setattr(connection, "cursor", fail)
        answer = client.get("/healthz/")
    assert (answer.status_code, answer.content) == (503, b"database: no answer\nvalkey: ok\n")


class Site(BaseHTTPRequestHandler):
    """Answers like a site behind a proxy that speaks HTTPS, for one name."""

    status = 200

    def do_GET(self) -> None:
        right = self.headers["Host"] == "tare.example.org"
        https = self.headers["X-Forwarded-Proto"] == "https"
        self.send_response(self.status if right and https and self.path == "/healthz/" else 400)
        self.end_headers()
        self.wfile.write(b"database: no answer")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of a site that is known as tare.example.org only."""
    monkeypatch.setenv("ALLOWED_HOSTS", ".tare.example.org,localhost")
    with HTTPServer(("127.0.0.1", 0), Site) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_the_web_server_is_asked_as_its_visitors_ask(port: int) -> None:
    assert health_check.check_web(port) == ""


def test_a_web_server_that_answers_an_error_is_not_well(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Site, "status", 503)
    problem = health_check.check_web(port)
    assert problem == "The web server answers 503: database: no answer"


def test_a_web_server_that_does_not_listen_is_not_well() -> None:
    assert "does not answer" in health_check.check_web(9)


@pytest.mark.parametrize(("names", "host"), [("", "localhost"), ("*", "localhost"), ("a,b", "a")])
def test_the_name_is_one_that_the_site_allows(
    names: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALLOWED_HOSTS", names)
    assert health_check.choose_host() == host


@pytest.fixture
def sign(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of life signs, not yet there."""
    settings.ALIVE_PATH = str(tmp_path / "alive")
    monkeypatch.setenv("ALIVE_PATH", settings.ALIVE_PATH)
    return tmp_path / "alive"


def test_nothing_is_written_where_no_file_is_named(
    sign: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sign.parent)
    settings.ALIVE_PATH = ""
    mark_alive(10)
    assert list(sign.parent.iterdir()) == []


def test_a_process_counts_as_well_until_its_next_mark_is_due(sign: Path) -> None:
    assert "has not begun to work" in health_check.check_alive()
    mark_alive(30)
    assert health_check.check_alive() == ""
    mark_alive(-5)
    assert "renewed 5 s ago" in health_check.check_alive()


def test_a_worker_marks_how_long_its_task_may_take(sign: Path) -> None:
    worker = TaskWorker(django_rq.get_queue())
    worker.heartbeat()
    assert sign.stat().st_mtime <= time.time() + worker.worker_ttl + 60
    worker.heartbeat(24 * 3600)
    assert sign.stat().st_mtime > time.time() + 23 * 3600


def test_a_clock_whose_rounds_fail_marks_nothing(
    db: object, sign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[str] = []
    marked: list[bool] = []
    handlers: dict[int, Any] = {}

    def enqueue_due(*_: object) -> None:
        marked.append(sign.exists())
        if not rounds:
            rounds.append("the database is away")
            raise OperationalError
        rounds.append("a round")

    def pause(seconds: float) -> None:
        if len(rounds) == 3:
            handlers[signal.SIGTERM](signal.SIGTERM, None)

    monkeypatch.setattr(clock, "enqueue_due", enqueue_due)
    monkeypatch.setattr(clock, "close_old_connections", lambda: None)
    monkeypatch.setattr(clock, "enqueue_early", lambda *_: None)
    monkeypatch.setattr(clock, "enqueue_waiting", lambda *_: None)
    monkeypatch.setattr(clock, "time", SimpleNamespace(sleep=pause, monotonic=time.monotonic))
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    clock.Command().handle()
    assert marked == [False, False, True]


def run_script(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the script as Docker does, without Tare's packages."""
    return subprocess.run(
        [sys.executable, "-I", "-S", str(BASE / "dashboard" / "health_check.py"), *arguments],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_script_needs_no_packages_and_says_what_is_wrong(sign: Path) -> None:
    done = run_script("alive", ALIVE_PATH=str(sign))
    assert done.returncode == 1
    assert "has not begun to work" in done.stdout
    mark_alive(60)
    done = run_script("alive", ALIVE_PATH=str(sign))
    assert (done.returncode, done.stdout) == (0, "ok\n")
    assert run_script().returncode == 2
