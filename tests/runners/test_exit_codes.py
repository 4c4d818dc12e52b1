"""Exit codes with their meaning in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.exit_codes import describe_exit_code


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (None, "–"),
        (0, "0"),
        (1, "1"),
        (77, "77"),
        (124, "124 (ended by timeout: its time was up)"),
        (126, "126 (the program was found but could not be started)"),
        (127, "127 (the program was not found)"),
        (128, "128"),
        (134, "134 (SIGABRT: aborted by the program itself, as after a failed check)"),
        (137, "137 (SIGKILL: killed, often because memory ran out)"),
        (139, "139 (SIGSEGV: segmentation fault)"),
        (143, "143 (SIGTERM: asked to end, as when a job is cancelled or its time is up)"),
        (-9, "-9 (SIGKILL: killed, often because memory ran out)"),
        (138, "138 (ended by SIGUSR1)"),
        (255, "255"),
    ],
)
def test_a_code_is_said_in_words(code: int | None, message: str) -> None:
    assert describe_exit_code(code) == message


@given(st.integers())
def test_every_code_is_shown(code: int) -> None:
    assert describe_exit_code(code).startswith(str(code))
