"""Texts on how runs, jobs and operations ended, for pages to show beside their states."""

from __future__ import annotations

from runners.ends import find_end
from runners.exit_codes import describe_exit_code
from runners.terminal import plain_text

__all__ = ["describe_exit_code", "find_advice", "plain_text", "split_reason"]


def find_advice(reason: str) -> str:
    """Return what a person can do about an end with this reason, as a sentence; "" if unknown."""
    end = find_end(reason)
    return end.advice if end else ""


def split_reason(reason: str, message: str) -> tuple[str, str]:
    """Return the reason, and the part of the message that does not repeat it.

    A reason that is only the beginning of its message gives way to it.
    """
    message = plain_text(message).strip()
    if not reason or not message.startswith(reason):
        return reason, message
    rest = message.removeprefix(reason)
    if not rest.strip(" .:"):
        return reason, ""
    if rest.startswith(":"):
        return reason, rest[1:].strip()
    return "", message
