"""What pages know of the supervisor of the demo, by its file."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from experiments.health.supervisor import read_supervision
from standalone.services import End, Service, Supervisor

NOW = datetime.now(UTC)


@pytest.fixture
def file(tmp_path: Path, settings: Settings) -> Path:
    path = tmp_path / "services.json"
    settings.SUPERVISOR_FILE = str(path)
    return path


def test_reads_what_the_supervisor_writes(file: Path) -> None:
    supervisor = Supervisor(file, print)
    looping = Service("worker", lambda: None, file.with_name("log"), ends_in_a_row=9)  # type: ignore[arg-type,return-value]
    supervisor.services.append(looping)
    early, late = NOW - timedelta(hours=2), NOW - timedelta(minutes=1)
    for at, exit_code in ((early, 1), (late, -9), (NOW - timedelta(days=30), 1)):
        supervisor.ends.append(End("worker", at.isoformat(), exit_code, 3.5))
    hung_at = NOW - timedelta(hours=1)
    supervisor.ends.append(End("worker", hung_at.isoformat(), -9, 3.5, was_hung=True))
    supervisor.write(stopped=False)
    supervision = read_supervision(NOW)
    assert supervision
    assert [(end.at, end.how) for end in supervision.ends] == [
        (late, "killed by SIGKILL"),
        (hung_at, "did nothing any more, and was killed"),
        (early, "ended with exit code 1"),
    ]
    assert supervision.counts == {"worker": 3}
    (service,) = supervision.services
    assert (service.name, service.is_loop, service.ends_in_a_row) == ("worker", True, 9)
    assert not supervision.is_stopped


def test_without_a_supervisor_there_is_nothing_to_tell(settings: Settings) -> None:
    settings.SUPERVISOR_FILE = ""
    assert read_supervision(NOW) is None
    settings.SUPERVISOR_FILE = "/nowhere/services.json"
    assert read_supervision(NOW) is None


ODD_END = {"at": NOW.isoformat(), "exit_code": "x", "ran_seconds": float("nan"), "service": 5}


@pytest.mark.parametrize(
    ("content", "ends"),
    [
        ("", None),
        ("[]", None),
        ({}, None),
        ({"ends": 5, "services": 5}, []),
        ({"ends": [5, {}, {"at": 5}, {"at": "soon"}], "services": [None, {}]}, []),
        ({"ends": [ODD_END], "services": []}, ["ended, and nobody saw how"]),
        ({"ends": [{**ODD_END, "exit_code": -99}], "services": []}, ["killed by signal 99"]),
    ],
)
def test_a_file_that_makes_no_sense_breaks_no_page(file: Path, content: Any, ends: Any) -> None:
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    supervision = read_supervision(NOW)
    assert (None if supervision is None else [end.how for end in supervision.ends]) == ends
