"""`tare follow`: what a terminal shows, what a log gets, and a site that goes away meanwhile."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from tare_client.commands.following import Screen, list_screen_lines
from tare_client.values import Progress

from tests.clients.conftest import CLIENT
from tests.clients.contract_server import (
    TOKEN,
    Site,
    answer_status,
    cut,
    describe_progress,
)

Tare = Callable[..., int]
Captured = pytest.CaptureFixture[str]
RUNNING = {
    "run": "1",
    "environment": "apptainer",
    "phase": "training",
    "step": 40,
    "of_steps": 200,
    "output_tail": "\n".join(f"loss {n}" for n in range(9)) + "\x1b[2J\r\x9b1A",
}


def test_a_log_gets_a_line_for_each_change(site: Site, tare: Tare, capsys: Captured) -> None:
    site.progress.extend(
        [
            describe_progress(True),
            describe_progress(True, seconds_left=590),
            describe_progress(True, waiting_for=["The cluster does not answer."]),
            describe_progress(False),
        ]
    )
    assert tare("follow", 3, "--every", "0.05") == 1
    out = capsys.readouterr().out
    assert out.splitlines()[:3] == [
        "running: 1 of 2 runs ended, 1 running, 1 succeeded, about 10 min left",
        "The cluster does not answer.",
        "finished: 2 of 2 runs ended, 2 succeeded",
    ]
    assert "\x1b" not in out
    assert out.splitlines()[-1] == "Verdict: slower"


def test_programs_get_lines_of_json(site: Site, tare: Tare, capsys: Captured) -> None:
    states = [describe_progress(True), describe_progress(True), describe_progress(False)]
    site.progress.extend(states)
    assert tare("follow", 3, "--every", "0.05", "--json") == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == states[1:]
    assert lines[2]["exit_word"] == "slower"


@pytest.mark.parametrize("fault", [cut, answer_status(502), answer_status(429)])
def test_a_site_that_is_restarted_is_waited_for(
    site: Site, tare: Tare, fault: Callable[..., None], capsys: Captured
) -> None:
    site.faults.extend([None, *[fault] * 12])
    site.progress.extend([describe_progress(True), describe_progress(False)])
    assert tare("follow", 3, "--every", "0.05") == 1
    assert "Asking again." in capsys.readouterr().err


def test_a_site_that_stays_away_is_not_waited_for_for_ever(
    site: Site, tare: Tare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tare_client.commands.following.LONGEST_SILENCE", -1)
    site.faults.extend([cut] * 5)
    assert tare("follow", 3) == 4
    assert len(site.requests) == 5


def test_an_experiment_that_is_gone_ends_the_following(site: Site, tare: Tare) -> None:
    assert tare("follow", 3) == 4
    assert len(site.requests) == 1


@pytest.mark.parametrize("status", [404, 409])
def test_an_end_without_a_comparison_is_no_verdict(
    site: Site, tare: Tare, status: int, capsys: Captured
) -> None:
    site.progress.append(describe_progress(False, state="cancelled"))
    for words in ([], ["--json"]):
        site.faults.extend([None, answer_status(status, "Nothing to compare.")])
        assert tare("follow", 3, *words) == 3
        assert "cancelled" in capsys.readouterr().out


def test_a_screen_shows_what_runs_and_obeys_nothing() -> None:
    progress = Progress.read(describe_progress(True, running=[RUNNING] * 9))
    lines = list_screen_lines(progress, with_tail=True)
    assert lines[0].startswith("[###############---------------] 50%  1 of 2 runs ended")
    assert "  apptainer: training, step 40 of 200" in lines
    assert [line for line in lines if "loss 5" in line]
    assert not [line for line in lines if "loss 4" in line]
    assert "  and 1 more" in lines
    assert not [line for line in lines if re.search(r"[\x00-\x1f\x7f-\x9f]", line)]
    assert not [line for line in list_screen_lines(progress, with_tail=False) if "loss" in line]


def test_a_screen_is_drawn_over_the_one_before(capsys: Captured) -> None:
    screen = Screen(with_tail=False)
    screen.show(Progress.read(describe_progress(True)))
    screen.remark("The site does not answer.")
    screen.remark("The site does not answer.")
    screen.show(Progress.read(describe_progress(True, runs={})))
    out = capsys.readouterr().out
    assert out.count("The site does not answer.") == 1
    assert out.count("\x1b[3A\x1b[J") == 1


def test_a_screen_is_no_higher_than_its_terminal(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINES", "10")
    monkeypatch.setenv("COLUMNS", "20")
    Screen(with_tail=True).show(Progress.read(describe_progress(True, running=[RUNNING] * 8)))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9
    assert max(map(len, lines)) == 19


def test_a_remark_on_a_narrow_terminal_is_drawn_over_whole(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    screen = Screen(with_tail=False)
    screen.show(Progress.read(describe_progress(True)))
    screen.remark("https://tare.example.org did not answer within 30 s. Asking again.")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) < 20
    assert "within 30 s. Asking again." in "".join(lines)
    screen.show(Progress.read(describe_progress(True, runs={})))
    assert capsys.readouterr().out.startswith(f"\x1b[{len(lines)}A\x1b[J")


def test_wide_letters_take_two_places(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    running = {**RUNNING, "output_tail": "損失" * 20 + "\n" + "e\u0301" * 40}
    Screen(with_tail=True).show(Progress.read(describe_progress(True, running=[running])))
    lines = capsys.readouterr().out.splitlines()
    assert "    | 損失損失損失" in lines
    assert "    | " + "e\u0301" * 13 in lines


def test_a_site_that_is_restarted_when_all_has_ended_is_waited_for(
    site: Site, tare: Tare, capsys: Captured
) -> None:
    site.progress.append(describe_progress(False))
    site.faults.extend([None, *[answer_status(503)] * 12])
    assert tare("follow", 3, "--every", "0.05") == 1
    assert "Asking again." in capsys.readouterr().err


def test_on_a_terminal_there_is_a_bar(site: Site) -> None:
    site.progress.extend([describe_progress(True, running=[RUNNING]), describe_progress(False)])
    reading, writing = pty.openpty()
    environment = {"PYTHONPATH": str(CLIENT), "TARE_URL": site.url, "TARE_TOKEN": TOKEN}
    with subprocess.Popen(
        [sys.executable, "-m", "tare_client", "follow", "3", "--every", "0.05"],
        env={**environment, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"},
        stdout=writing,
        stderr=writing,
    ) as process:
        os.close(writing)
        shown = b""
        while part := read_some(reading):
            shown += part
    os.close(reading)
    assert process.returncode == 1, shown
    assert b"[###############---------------] 50%" in shown
    assert b"| loss 8" in shown
    assert b"\x1b[2J" not in shown


def read_some(handle: int) -> bytes:
    try:
        return os.read(handle, 65536)
    except OSError:  # the other side has closed: Linux's way to say so
        return b""
