"""Renders a program's output as a terminal would: no escape sequences, progress bars once."""

from __future__ import annotations

import re

ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles and links
    r"|\x1b[PX^_][^\x1b\n]*(?:\x1b\\)?"  # strings for devices
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*\Z"  # cut off at the end
    r"|\x1b[ -/]*[0-~]"
)
ERASE_LINE = re.compile(r"(?:\x1b\[|\x9b)2K")
CONTROLS = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def plain_text(text: str) -> str:
    """Return the text as a terminal shows it in the end: each line as it was written last.

    Colours are removed; carriage returns and backspaces overwrite. The number of lines stays.
    """
    if not _has_controls(text):
        return text
    text = ERASE_LINE.sub("\r\x18", text.replace("\r\n", "\n"))
    text = ESCAPES.sub("", text)
    return "\n".join(_overwrite(line) for line in text.split("\n"))


def _has_controls(text: str) -> bool:
    return "\r" in text or "\b" in text or CONTROLS.search(text) is not None


def _overwrite(line: str) -> str:
    """Apply carriage returns, backspaces and erasures within one line, in linear time."""
    if "\r" not in line and "\b" not in line:
        return CONTROLS.sub("", line)
    shown: list[str] = []
    cursor = 0
    for part in re.split(r"([\r\b\x18])", line):
        if part == "\r":
            cursor = 0
        elif part == "\b":
            cursor = max(cursor - 1, 0)
        elif part == "\x18":
            shown.clear()
        else:
            printed = CONTROLS.sub("", part)
            shown[cursor : cursor + len(printed)] = printed
            cursor += len(printed)
    return "".join(shown)
