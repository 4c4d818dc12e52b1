"""A reason and its message are shown once each, without repeating one another."""

from __future__ import annotations

import pytest

from experiments.execution.end_texts import find_advice, split_reason
from runners.ends import ENDS


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
    assert all(find_advice(reason) == end.advice != "" for reason, end in ENDS.items())
    assert find_advice("set-up failed (exit code 1)") == ENDS["set-up failed"].advice
    assert find_advice("a reason of a program's own") == find_advice("") == ""
