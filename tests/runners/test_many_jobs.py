"""Thousands of live jobs: no command is longer than the shell of a login node takes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.errors import TryAgain
from runners.runner import COMMAND_BYTES, NEWS_LIMIT, SHORT, Runner, split_into_portions
from runners.schedulers import SCHEDULERS
from runners.schedulers.direct import Direct
from runners.transports import SSH, Completed, Local

MANY = 5_000


def test_the_journals_of_thousands_are_read(ssh: SSH, tmp_path: Path) -> None:
    offsets = {}
    for number in range(MANY):
        folder = tmp_path / f"jobs/{number:032x}-1"
        folder.mkdir(parents=True)
        offsets[str(folder)] = 2
        if number % 100 == 0:
            (folder / "journal.ndjson").write_text(f"x\n{number}\n")
    news = Runner(ssh, Direct()).read_journals(offsets)
    journals = {int(Path(folder).name[:32], 16): content for folder, content in news.items()}
    assert journals == {number: b"%d\n" % number for number in range(0, MANY, 100)}


@pytest.mark.parametrize(
    "answer",
    [b"Welcome\narchive\n", b"0 1\nxarchive\n", b"2 1\nxarchive\n", b"1 -1\nxarchive\n", b"1 5\nx"],
)
def test_an_odd_answer_about_journals_is_none(answer: bytes) -> None:
    """As where a login profile prints something, or the connection is cut."""
    with (
        mock.patch.object(Local, "run", return_value=Completed(0, answer, b"")),
        pytest.raises(TryAgain, match="journals"),
    ):
        Runner(Local(), Direct()).read_journals({"/scratch/jobs/a-1": 0})


class Counting(Direct):
    """Answers with how many jobs it was asked about."""

    def is_id(self, text: str) -> bool:
        return text.isdigit()

    def build_status_command(self, ids: Sequence[str]) -> list[str]:
        return ["sh", "-c", 'echo "$#-$1 running"', "status", *ids]

    def build_cancel_command(self, ids: Sequence[str]) -> list[str]:
        return ["sh", "-c", "exit 0", "cancel", *ids]


def test_thousands_are_asked_about_and_cancelled(ssh: SSH) -> None:
    ids = [str(10**15 + number) for number in range(2 * MANY)]
    runner = Runner(ssh, Counting())
    counts = [int(status.partition("-")[0]) for status in runner.poll(ids)]
    assert sum(counts) == len(ids)
    assert max(counts) > MANY / 2, "few questions for many jobs"
    runner.cancel(ids)


@pytest.mark.parametrize("kind", SCHEDULERS)
def test_what_can_be_no_id_of_the_scheduler_is_not_asked_about(kind: str) -> None:
    """One such id makes a whole command fail: all other jobs would be missing in its answer."""
    transport = mock.Mock()
    transport.run.return_value = Completed(0, b"", b"")
    runner = Runner(transport, SCHEDULERS[kind]())
    odd = ["0", "", "1-", "-9", "7" * 30]
    assert runner.poll(odd) == {}
    assert runner.read_endings(odd) == {}
    runner.cancel(odd)
    transport.run.assert_not_called()


def test_a_journal_without_end_comes_piece_by_piece(ssh: SSH, tmp_path: Path) -> None:
    (tmp_path / "journal.ndjson").write_bytes(b"x" * (3 * NEWS_LIMIT))
    runner, folder = Runner(ssh, Direct()), str(tmp_path)
    assert len(runner.read_journals({folder: 0})[folder]) == NEWS_LIMIT
    assert len(runner.read_journals({folder: 3 * NEWS_LIMIT - 5})[folder]) == 5


def test_what_is_no_file_is_no_journal(ssh: SSH, tmp_path: Path) -> None:
    (tmp_path / "a/journal.ndjson").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b/journal.ndjson").symlink_to("/dev/zero")
    assert Runner(ssh, Direct()).read_journals({str(tmp_path / name): 0 for name in "ab"}) == {}


def test_what_would_never_end_is_not_read(tmp_path: Path) -> None:
    """A program that puts a pipe in place of a file keeps no visit waiting."""
    os.mkfifo(tmp_path / "output.txt")
    assert Runner(Local(), Direct()).read_tail(str(tmp_path / "output.txt")) == ""
    with pytest.raises(FileNotFoundError):
        Local().read(str(tmp_path / "output.txt"))


def test_folders_of_two_kinds_and_one_that_is_gone(ssh: SSH, tmp_path: Path) -> None:
    names = ["jobs/a-1", "chores/b-1", "jobs/with space"]
    for name in names:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "journal.ndjson").write_text(f"{name}\n")
    offsets = {str(tmp_path / name): 1 for name in [*names, "gone/c-1"]}
    news = Runner(ssh, Direct()).read_journals(offsets)
    assert news == {str(tmp_path / name): f"{name}\n"[1:].encode() for name in names}


def test_no_name_leads_out_of_the_folder(ssh: SSH, tmp_path: Path) -> None:
    (tmp_path / "jobs/a").mkdir(parents=True)
    for place in ("", "jobs"):
        (tmp_path / place / "journal.ndjson").write_text("secret\n")
    runner = Runner(ssh, Direct())
    assert runner._read_journals(str(tmp_path / "jobs"), {"x/..": 0, "x/.": 0}) == {}


def test_a_journal_that_cannot_be_read_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was announced and is not there is filled up: the answers after it are still read."""
    sizes = {"a": SHORT + 10, "b": SHORT + 20, "c": 5}
    for name, size in sizes.items():
        (tmp_path / "jobs" / name).mkdir(parents=True)
        (tmp_path / "jobs" / name / "journal.ndjson").write_bytes(b"x" * size)
    (tmp_path / "bin").mkdir()
    fails = tmp_path / "bin" / "tail"
    fails.write_text('#!/bin/sh\ncase $* in *a/journal*) exit 1 ;; esac\nexec /usr/bin/tail "$@"\n')
    fails.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fails.parent}:{os.environ['PATH']}")
    offsets = {str(tmp_path / "jobs" / name): 0 for name in sizes}
    news = Runner(Local(), Direct()).read_journals(offsets)
    contents = {Path(name).name: content for name, content in news.items()}
    assert contents == {"a": bytes(sizes["a"]), "b": b"x" * sizes["b"], "c": b"x" * 5}


def test_an_odd_line_about_what_has_started_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = mock.Mock(directory=str(tmp_path))
    (tmp_path / "started").write_text("12-34\v99 5-6\u20287 5-6")
    assert Runner(Local(), Direct()).find_started([job]) == {}


def test_no_command_names_more_than_it_can() -> None:
    ids = [str(10**9 + number) for number in range(20_000)]
    for kind, scheduler in SCHEDULERS.items():
        made: Any = scheduler()
        for some in split_into_portions(ids, ids):
            names = [name for name, _ in some]
            for command in (
                made.build_status_command(names),
                made.build_cancel_command(names),
                made.build_accounting_command(names),
            ):
                assert sum(len(word) + 3 for word in command or []) < 128 * 1024, kind


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=50)))
def test_portions_hold_everything_in_order(job_ids: list[str]) -> None:
    job_ids *= 50
    parts = list(split_into_portions(job_ids))
    assert [word for part in parts for (word,) in part] == job_ids
    assert all(sum(len(word) for (word,) in part) <= COMMAND_BYTES for part in parts)
