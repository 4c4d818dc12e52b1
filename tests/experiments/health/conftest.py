"""Signs of life as processes write them, and a Valkey that may be stopped and killed."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from experiments.execution.holder import make_token
from experiments.models import ServiceSign
from standalone.valkey import Valkey

MakeSign = Callable[..., ServiceSign]


@pytest.fixture
def sign() -> MakeSign:
    """Make the sign of a process that lives: this one."""

    def make(service: str = "worker", queue: str = "default", **columns: Any) -> ServiceSign:
        now = timezone.now()
        return ServiceSign.objects.create(
            **{
                "token": make_token(),
                "service": service,
                "queue": queue,
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "started_at": now - timedelta(hours=1),
                "seen_at": now,
            }
            | columns
        )

    return make


@pytest.fixture
def all_run(sign: MakeSign, roomy_disks: None, empty_queues: None) -> None:
    """All that has to run does."""
    sign("worker", "default")
    sign("worker", "bulk")
    sign("clock", "")


@pytest.fixture
def own_valkey(tmp_path: Path, settings: Settings) -> Iterator[Valkey]:
    """A Valkey of the test's own, which the site asks."""
    server = Valkey(tmp_path / "valkey")
    server.start()
    settings.REDIS_URL = server.url
    yield server
    server.stop()
