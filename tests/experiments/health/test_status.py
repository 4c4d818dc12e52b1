"""`manage.py status`, for people and for health checks."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import OperationalError, ProgrammingError
from django.utils import timezone
from pytest_django import Settings

from experiments.management.commands import status
from experiments.models import Job, ServiceSign
from standalone.valkey import Valkey
from tests.experiments.health.conftest import MakeSign
from tests.factories import ClusterFactory, JobFactory

pytestmark = pytest.mark.django_db
BASE = Path(__file__).resolve().parents[3]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Return the command's exit code and what it printed."""
    try:
        call_command("status", *arguments)
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_tells_all_and_that_all_is_well(all_run: None, capsys: pytest.CaptureFixture[str]) -> None:
    ClusterFactory(name="near", last_tick_at=timezone.now(), last_tick_seconds=0.5)
    JobFactory(state=Job.State.COLLECTING, gone_at=timezone.now() - timedelta(hours=1))
    code, text = run(capsys)
    assert code == 0, text
    for title in ("SERVICES", "QUEUES", "CLUSTERS", "STORAGE", "STUCK"):
        assert f"{title}\n" in text
    assert "All that Tare needs is running." in text
    for line in ("PostgreSQL", "worker default", "worker bulk", "clock", "near", "image store"):
        assert f"\n{line} " in text or line == "image store"
    assert "Jobs that left the queue more than 10 min ago and are not collected: 1. " in text


def test_ends_with_code_1_where_something_essential_is_missing(
    sign: MakeSign, capsys: pytest.CaptureFixture[str]
) -> None:
    sign("worker", "bulk")
    sign("clock", "", seen_at=timezone.now() - timedelta(hours=1))
    code, text = run(capsys)
    assert code == 1
    assert "! No worker runs." in text
    assert "! No clock runs (last seen 2" in text
    assert "No worker of the queue bulk" not in text


@pytest.mark.parametrize("name", ["worker", "bulk", "clock"])
def test_a_health_check_asks_for_one_service(
    name: str, all_run: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, name, "--here") == (0, "ok\n")
    ServiceSign.objects.update(host="another container")
    assert run(capsys, name) == (0, "ok\n")
    code, text = run(capsys, name, "--here")
    assert code == 1
    assert text.startswith("! No ")


def test_a_name_that_nobody_knows_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run(capsys, "postgres")
    assert code == 2
    assert "There are database, valkey, worker, bulk, clock." in text


def test_without_valkey_it_says_so(
    all_run: None, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.REDIS_URL = "unix:///nowhere/socket?db=0"
    code, text = run(capsys)
    assert code == 1
    assert "! Valkey does not answer. " in text
    assert "\nValkey  " in text
    assert run(capsys, "worker") == (0, "ok\n"), "another service’s health is its own"
    assert run(capsys, "valkey")[0] == 1


def test_without_postgresql_it_says_so(tmp_path: Path, own_valkey: Valkey) -> None:
    environment = os.environ | {
        "DATABASE_URL": "postgresql://tare:x@127.0.0.1:1/tare",
        "REDIS_URL": own_valkey.url,
    }

    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", "status", *arguments],
            cwd=BASE,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    done = ask()
    assert done.returncode == 1
    assert done.stdout.startswith("! PostgreSQL does not answer.")
    assert "Traceback" not in done.stderr
    assert "x@" not in done.stdout, "no password"


def test_valkey_alone_needs_no_database(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Any:
        raise OperationalError("away")

    monkeypatch.setattr(status, "read_services", refuse)
    assert run(capsys, "valkey") == (0, "ok\n")
    assert run(capsys, "database")[0] == 1


def test_tables_of_another_version_are_told_plainly(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Any:
        raise ProgrammingError('relation "experiments_servicesign" does not exist\nLINE 1: ...')

    monkeypatch.setattr(status, "read_report", refuse)
    code, text = run(capsys)
    assert code == 1
    assert text == (
        "! The tables of PostgreSQL are not those of this version. Pages, workers and the clock "
        "fail until they are. Run manage.py migrate. "
        'relation "experiments_servicesign" does not exist\n'
    )
