"""What a scheduler says of a number is believed only of the job that Tare has sent by it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from experiments.execution.scheduler_answers import (
    NoAccounts,
    ask_endings,
    find_ending,
    find_status,
    read_expected_start,
)
from experiments.models import Job
from runners.errors import Kind, TryAgain
from runners.runner import Runner
from runners.schedulers import SCHEDULERS, JobEnding, Status
from runners.transports import Local

OURS = Job(uid="a" * 32, attempt=2, scheduler_id="7")
ANOTHER = f"tare-{'b' * 32}-1"
RUNNING = Status("running", "", "RUNNING")
ENDED = JobEnding("FAILED", "1:0", "", "node1", "")


@pytest.mark.parametrize("name", ["", OURS.name, "renamed by the site"])
def test_a_name_that_the_site_may_have_changed_is_no_other_jobs(name: str) -> None:
    status, ending = replace(RUNNING, name=name), replace(ENDED, name=name)
    assert find_status(OURS, {"7": status, "8": RUNNING}) == status
    assert find_ending(OURS, {"7": ending}) == ending


def test_a_number_that_was_given_to_another_job_tells_nothing() -> None:
    assert find_status(OURS, {"7": replace(RUNNING, name=ANOTHER)}) is None
    assert find_ending(OURS, {"7": replace(ENDED, name=ANOTHER)}) is None
    assert find_status(OURS, {"8": RUNNING}) is None
    assert find_ending(OURS, {}) is None


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status("queued", "Priority", "PENDING", expected_start=3661.5), (1, 1)),
        (Status("queued", "Priority", "PENDING", expected_start=3719.0), (1, 1)),
        (Status("queued", "Priority", "PENDING", expected_start=3720.0), (1, 2)),
        (Status("queued", "Priority", "PENDING"), None),
        (Status("running", "", "RUNNING", expected_start=3661.5), None),
    ],
)
def test_an_expected_start_is_told_to_the_minute_while_a_job_waits(
    status: Status, expected: tuple[int, int] | None
) -> None:
    moment = expected and datetime(1970, 1, 1, *expected, tzinfo=UTC)
    assert read_expected_start(status) == moment


class TestAccounts:
    def ask(self, monkeypatch: pytest.MonkeyPatch, answer: Any) -> Any:
        """Ask how a job ended where the scheduler answers so."""

        def read_endings(self: Runner, ids: list[str]) -> Any:
            assert ids == ["7"]
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(Runner, "read_endings", read_endings)
        return ask_endings([OURS], Runner(Local(), SCHEDULERS["slurm"]()))

    def test_are_asked_by_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.ask(monkeypatch, {"7": ENDED}) == {"7": ENDED}

    def test_that_are_busy_are_waited_for_in_words(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(NoAccounts) as caught:
            self.ask(monkeypatch, TryAgain("sacct: no contact", kind="busy"))
        assert caught.value.kind == "busy"
        assert str(caught.value) == (
            "it has ended, and waits for the scheduler's accounts. sacct: no contact"
        )

    @pytest.mark.parametrize("kind", ["unreachable", "time-out"])
    def test_of_a_cluster_that_does_not_answer_end_the_visit(
        self, kind: Kind, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(TryAgain) as caught:
            self.ask(monkeypatch, TryAgain("no route", kind=kind))
        assert not isinstance(caught.value, NoAccounts)
