"""Texts on how runs, jobs and operations ended, for pages to show beside their states."""

from __future__ import annotations

from experiments.execution.further_attempts import FurtherAttempts
from runners.ends import TRY_AGAIN, find_end
from runners.exit_codes import describe_exit_code
from runners.terminal import plain_text

__all__ = ["describe_exit_code", "find_advice", "plain_text", "split_reason"]


def find_advice(reason: str, may: FurtherAttempts | None = None) -> str:
    """Return what a person can do about an end with this reason, in sentences; "" if unknown.

    `may`: the further attempts for which the reader has buttons beside it.
    """
    end = find_end(reason)
    advice = end.advice if end else ""
    if not advice.endswith(TRY_AGAIN) or (may and may.can_retry):
        return advice
    instead = "Then run what never began." if may and may.missing else ""
    return f"{advice.removesuffix(TRY_AGAIN)}{instead}".strip()


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
