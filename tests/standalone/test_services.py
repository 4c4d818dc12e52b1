"""What the supervisor of `make demo` does when one of its services ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from standalone import services
from standalone.children import start
from standalone.services import (
    HUNG_SECONDS,
    LOOP,
    MOST_ENDS,
    PAUSES,
    STEADY_SECONDS,
    Service,
    Supervisor,
)
from tests.conftest import pause_longer

Command = Callable[[], subprocess.Popen[bytes]]


class Clock:
    """The time that has passed, which tests advance."""

    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(services.time, "monotonic", clock)
    return clock


def run(script: str, log: Path) -> Command:
    return lambda: start([sys.executable, "-S", "-c", script], log=log)


def make(tmp_path: Path, script: str, **columns: object) -> tuple[Supervisor, Service, list[str]]:
    said: list[str] = []
    supervisor = Supervisor(tmp_path / "services.json", said.append)
    log = tmp_path / "log"
    service = Service("worker", run(script, log), log, **columns)  # type: ignore[arg-type]
    supervisor.services.append(service)
    supervisor.keep_alive()
    return supervisor, service, said


def wait_for_end(service: Service) -> None:
    assert service.child
    service.child.wait(60)


def read(supervisor: Supervisor) -> dict[str, object]:
    content: dict[str, object] = json.loads(supervisor.file.read_text())
    return content


def test_one_that_is_killed_is_started_again_at_once(tmp_path: Path, clock: Clock) -> None:
    supervisor, service, said = make(tmp_path, "import time; time.sleep(99)")
    first = service.child
    assert first
    clock.seconds += STEADY_SECONDS
    first.kill()
    first.wait()
    supervisor.keep_alive()  # sees the end
    supervisor.keep_alive()
    assert service.child
    assert service.child.pid != first.pid
    assert said == [
        f"worker was killed by SIGKILL; its log is {tmp_path / 'log'}. Starting it again now."
    ]
    (row,) = read(supervisor)["services"]  # type: ignore[misc]
    assert (row["state"], row["pid"]) == ("running", service.child.pid)
    (end,) = read(supervisor)["ends"]  # type: ignore[misc]
    assert (end["service"], end["exit_code"], end["ran_seconds"]) == ("worker", -9, STEADY_SECONDS)
    service.child.kill()
    service.child.wait()


def test_one_that_hangs_is_killed_and_started_again(tmp_path: Path, clock: Clock) -> None:
    """Stopped, as by SIGSTOP, it stays a process, and does nothing any more."""
    heartbeat = tmp_path / "heartbeat"
    heartbeat.touch()
    os.utime(heartbeat, (0, 0))  # of the service before it, which says nothing about this one
    supervisor, service, messages = make(
        tmp_path, "import time; time.sleep(99)", heartbeat=heartbeat
    )
    first = service.child
    assert first
    clock.seconds += 2 * HUNG_SECONDS
    supervisor.keep_alive()  # it has not begun to work
    in_a_minute = time.time() + 60
    heartbeat.touch()
    os.utime(heartbeat, (in_a_minute, in_a_minute))
    clock.seconds += 2 * HUNG_SECONDS
    supervisor.keep_alive()
    assert messages == []
    os.kill(first.pid, signal.SIGSTOP)
    os.utime(heartbeat, (0, 0))
    supervisor.keep_alive()  # sees for the first time that it is late: the machine may have slept
    assert messages == []
    clock.seconds += HUNG_SECONDS
    supervisor.keep_alive()
    supervisor.keep_alive()
    assert messages[0] == "worker does nothing any more: its heartbeat is late."
    assert messages[1].startswith("worker was killed by SIGKILL")
    assert [(end.exit_code, end.was_hung) for end in supervisor.ends] == [(-9, True)]
    assert service.child
    assert service.child.pid != first.pid
    service.child.kill()
    service.child.wait()


def test_a_crash_loop_waits_longer_each_time_and_is_said_plainly_once(
    tmp_path: Path, clock: Clock
) -> None:
    supervisor, service, said = make(tmp_path, "raise SystemExit('no such table')")
    pauses = []
    for _ in range(LOOP + 3):
        wait_for_end(service)
        supervisor.keep_alive()
        pause = service.resume_at - clock.seconds
        pauses.append(pause)
        if pause:
            clock.seconds += pause * 0.9
            supervisor.keep_alive()
            assert service.child is None, "too early"
            clock.seconds += pause * 0.2
        supervisor.keep_alive()
    assert pauses == [*PAUSES, PAUSES[-1], PAUSES[-1]]
    loops = [text for text in said if "times in a row" in text]
    assert len(loops) == 1
    assert f"worker ended {LOOP} times in a row, each time within 60 s of its start" in loops[0]
    assert loops[0].endswith("\n  no such table")
    assert "worker ended with exit code 1; its log is" in said[0]
    (row,) = read(supervisor)["services"]  # type: ignore[misc]
    assert row["is_loop"]
    wait_for_end(service)


def test_a_row_of_ends_is_over_when_one_has_run_for_a_while(tmp_path: Path, clock: Clock) -> None:
    supervisor, service, _ = make(tmp_path, "raise SystemExit(3)")
    for _ in range(4):
        wait_for_end(service)
        supervisor.keep_alive()
        clock.seconds += PAUSES[-1]
        supervisor.keep_alive()
    assert service.ends_in_a_row == 4
    clock.seconds += STEADY_SECONDS  # as if it had run for as long
    wait_for_end(service)
    supervisor.keep_alive()
    assert service.ends_in_a_row == 1


def test_work_that_is_done_once_stays_done_and_is_tried_again_if_it_fails(
    tmp_path: Path, clock: Clock
) -> None:
    supervisor, service, said = make(tmp_path, "", once=True)
    wait_for_end(service)
    supervisor.keep_alive()
    (row,) = read(supervisor)["services"]  # type: ignore[misc]
    assert (row["state"], said) == ("done", [])
    service.start = run("raise SystemExit(1)", tmp_path / "log")
    service.child = service.start()
    wait_for_end(service)
    supervisor.keep_alive()
    assert len(said) == 1


def test_one_that_cannot_be_started_at_all_keeps_nobody_else_from_it(
    tmp_path: Path, clock: Clock
) -> None:
    supervisor, service, _ = make(tmp_path, "raise SystemExit(1)")
    wait_for_end(service)

    def refuse() -> subprocess.Popen[bytes]:
        raise OSError(28, "No space left on device")

    service.start = refuse
    other = Service("clock", run("raise SystemExit(0)", tmp_path / "other"), tmp_path / "other")
    supervisor.services.append(other)
    supervisor.keep_alive()
    supervisor.keep_alive()
    assert "No space left" in service.problem
    assert other.child is not None
    wait_for_end(other)
    assert "No space left" in str(read(supervisor)["services"])


def test_what_it_leaves_in_its_session_goes_with_it(tmp_path: Path, clock: Clock) -> None:
    script = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '99'])\n"
        "print(child.pid, flush=True)\n"
        "child.wait()"
    )
    supervisor, service, _ = make(tmp_path, script, ends_whole=True)
    pauses = pause_longer()
    while not (tmp_path / "log").read_text().endswith("\n"):
        next(pauses)
    left = int((tmp_path / "log").read_text())
    assert service.child
    service.child.kill()
    service.child.wait()
    os.kill(left, 0)  # it lives on
    service.start = run("", tmp_path / "log")
    supervisor.keep_alive()
    while Path(f"/proc/{left}").exists() and " Z " not in Path(f"/proc/{left}/stat").read_text():
        next(pauses)
    supervisor.keep_alive()
    wait_for_end(service)


def test_a_supervisor_remembers_what_ended_before_it(tmp_path: Path, clock: Clock) -> None:
    supervisor, service, _ = make(tmp_path, "raise SystemExit(1)")
    for _ in range(3):
        wait_for_end(service)
        supervisor.keep_alive()
        clock.seconds += PAUSES[-1]
        supervisor.keep_alive()
    wait_for_end(service)
    second = Supervisor(supervisor.file, print)
    second.remember()
    assert [end.service for end in second.ends] == ["worker"] * 3 + ["supervisor"]
    assert second.was_killed
    second.write(stopped=True)
    third = Supervisor(supervisor.file, print)
    third.remember()
    assert [end.service for end in third.ends] == ["worker"] * 3 + ["supervisor"]
    assert not third.was_killed
    third.ends *= 2 * MOST_ENDS
    third.write(stopped=False)
    assert len(read(third)["ends"]) == MOST_ENDS  # type: ignore[arg-type]
    assert supervisor.file.stat().st_mode & 0o777 == 0o600


def test_when_a_supervisor_was_killed_is_known_to_the_minute(tmp_path: Path, clock: Clock) -> None:
    """Though nothing has changed for hours before that."""
    supervisor, service, _ = make(tmp_path, "import time; time.sleep(600)")
    content = read(supervisor)
    supervisor.file.write_text(json.dumps(content | {"written_at": "2026-01-01T00:00:00+00:00"}))
    clock.seconds += 3 * 3600
    supervisor.keep_alive()
    second = Supervisor(supervisor.file, print)
    second.remember()
    assert second.ends[-1].at >= str(content["written_at"])
    assert service.child
    service.child.kill()
    service.child.wait()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"ends": [{"odd": 1}]}', '{"ends": 5}', "\0"])
def test_a_file_that_makes_no_sense_is_begun_anew(tmp_path: Path, content: str) -> None:
    file = tmp_path / "services.json"
    file.write_text(content)
    supervisor = Supervisor(file, print)
    supervisor.remember()
    assert supervisor.ends == []
    supervisor.keep_alive()
    assert read(supervisor)["stopped"] is False


def test_a_full_disk_keeps_nobody_from_starting_services(tmp_path: Path, clock: Clock) -> None:
    supervisor, service, _ = make(tmp_path, "")
    supervisor.file = tmp_path / "not there" / "services.json"
    wait_for_end(service)
    supervisor.keep_alive()
    supervisor.keep_alive()
    assert service.child is not None
    wait_for_end(service)


@pytest.mark.parametrize(
    ("exit_code", "text"),
    [
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        (-signal.SIGKILL, "was killed by SIGKILL"),
        (-signal.SIGRTMIN, "was killed by SIGRTMIN"),
        (-99, "was killed by signal 99"),
    ],
)
def test_says_how_a_process_ended(exit_code: int, text: str) -> None:
    assert services.describe_exit(exit_code) == text
