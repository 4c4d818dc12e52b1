"""Output is shown as a terminal would leave it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.terminal import plain_text

TQDM = "\r  0%|          | 0/3\r 33%|███▎      | 1/3\r100%|██████████| 3/3\ndone"
KERAS = "1/3 [==>....]" + "\b" * 13 + "3/3 [=======]\n"


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31merror\x1b[0m: no file", "error: no file"),
        ("\x1b[1;38;5;208mWARN\x1b[m", "WARN"),
        (TQDM, "100%|██████████| 3/3\ndone"),
        (KERAS, "3/3 [=======]\n"),
        ("a long line\rshort", "shortg line"),
        ("a long line\r\x1b[2Kshort", "short"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;https://x.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Btext\x1b=", "text"),
        ("cut off \x1b[38;5", "cut off "),
        ("bell\x07 and nul\x00", "bell and nul"),
        ("\b\bback", "back"),
    ],
)
def test_what_a_terminal_shows(printed: str, shown: str) -> None:
    assert plain_text(printed) == shown


@given(st.text(st.sampled_from("ab \n\r\b\x1b[]0;1mK2\x07\x9b\\P(\x00é")))
def test_nothing_that_steers_a_terminal_is_left_and_no_line_is_lost(printed: str) -> None:
    shown = plain_text(printed)
    assert not set(shown) & set("\r\b\x1b\x07\x9b\x00")
    assert shown.count("\n") == printed.count("\n")
    assert plain_text(shown) == shown


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_plain_text_stays_as_it_is(printed: str) -> None:
    assert plain_text(printed) == printed


def test_a_long_progress_bar_ends_in_its_last_state() -> None:
    bar = "".join(f"\r{step}/200000" for step in range(200_001))
    assert plain_text(bar) == "200000/200000"
