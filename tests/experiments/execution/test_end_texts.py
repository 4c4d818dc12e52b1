"""A reason and its message are shown once each, without repeating one another."""

from __future__ import annotations

import pytest

from experiments.execution.end_texts import find_advice, split_reason
from experiments.execution.further_attempts import FurtherAttempts
from runners.ends import ENDS, TRY_AGAIN


@pytest.mark.parametrize(
    ("reason", "message", "shown"),
    [
        ("crashed", "exit code 1", ("crashed", "exit code 1")),
        ("crashed", " exit code 1\n", ("crashed", "exit code 1")),
        ("", "exit code 1", ("", "exit code 1")),
        ("disk full", "disk full", ("disk full", "")),
        ("disk full", "disk full.", ("disk full", "")),
        ("disk full", "disk full: ", ("disk full", "")),
        ("disk full", "disk full: 0 bytes left", ("disk full", "0 bytes left")),
        ("the image", "the image is missing", ("", "the image is missing")),
        ("lost", "", ("lost", "")),
        ("crashed", "\x1b[1mboom\x1b[0m", ("crashed", "boom")),
    ],
)
def test_a_message_does_not_repeat_its_reason(
    reason: str, message: str, shown: tuple[str, str]
) -> None:
    assert split_reason(reason, message) == shown


def test_every_reason_comes_with_advice_and_unknown_ones_with_none() -> None:
    every = FurtherAttempts(can_retry=True, missing=2, can_collect=True)
    assert all(find_advice(reason, every) == end.advice != "" for reason, end in ENDS.items())
    assert find_advice("set-up failed (exit code 1)") == ENDS["set-up failed"].advice


@pytest.mark.parametrize("reason", [name for name, end in ENDS.items() if TRY_AGAIN in end.advice])
def test_advice_names_no_button_that_is_not_there(reason: str) -> None:
    advice = ENDS[reason].advice
    assert advice.endswith(TRY_AGAIN)
    repair = FurtherAttempts(missing=1)
    assert find_advice(reason, FurtherAttempts(can_retry=True)) == advice
    assert find_advice(reason, repair) == advice.replace(TRY_AGAIN, "Then run what never began.")
    for may in (None, FurtherAttempts(), FurtherAttempts(can_collect=True)):
        assert find_advice(reason, may) == advice.removesuffix(TRY_AGAIN).strip()


def test_again_is_advised_in_one_way() -> None:
    for reason, end in ENDS.items():
        assert "try again" not in end.advice.removesuffix(TRY_AGAIN).lower(), reason


def test_no_advice_is_none() -> None:
    assert find_advice("a reason of a program's own") == find_advice("") == ""
