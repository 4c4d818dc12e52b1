"""Lock files as pip takes them with `--require-hashes`: the parser. No files, no network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MOST_CHARACTERS = 2_000_000

PIN = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:\[[\w,. -]*\])?\s*"
    r"==\s*(?P<version>[A-Za-z0-9.!+_-]+)\s*(?:;(?P<marker>[^#]*?))?\s*"
    r"(?P<hashes>(?:--hash=\w+:[0-9a-fA-F]+\s*)*)$"
)


class LockError(Exception):
    """The text is not a lock file; the message says where and why."""


@dataclass(frozen=True)
class Locked:
    """One requirement of a lock file. A package may appear again with another marker."""

    name: str
    version: str
    marker: str = ""


def read_lock(text: str) -> list[Locked]:
    """Return the packages of a lock file. Raises LockError unless each is pinned and hashed.

    Options are refused: the cluster decides which index is used.
    """
    if len(text) > MOST_CHARACTERS:
        raise LockError(f"The lock has {len(text):,} characters; {MOST_CHARACTERS:,} are the most.")
    if "\0" in text:
        raise LockError("The lock holds a NUL: it is no text.")
    packages = [_parse_line(number, line) for number, line in _lines(text)]
    if not packages:
        raise LockError("The lock names no package.")
    return packages


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each requirement on one line, with the number of its first one."""
    first_number, joined = 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        requirement = re.sub(r"(^|\s)#.*$", "", line)
        first_number = first_number if joined else number
        if requirement.rstrip().endswith("\\"):
            joined += requirement.rstrip()[:-1] + " "
            continue
        if complete := (joined + requirement).strip():
            yield first_number, complete
        joined = ""
    if joined.strip():
        yield first_number, joined.strip()


def _parse_line(number: int, line: str) -> Locked:
    excerpt = line if len(line) < 80 else f"{line[:77]}..."
    if line.startswith("-"):
        raise LockError(
            f"Line {number} is an option ({excerpt.split()[0]}): a lock holds packages only. "
            "Which index is used, the cluster’s set-up lines or pip’s configuration there decide."
        )
    if "://" in line or re.match(r"\S+\s*@\s", line):
        raise LockError(f"Line {number} names an address; a lock holds names and versions.")
    pin = PIN.fullmatch(line)
    if pin is None:
        raise LockError(
            f"Line {number} is not pinned with ==, or not understood: {excerpt} A lock with hashes "
            "is what `uv pip compile --generate-hashes` or `pip-compile --generate-hashes` writes."
        )
    if not pin["hashes"]:
        raise LockError(f"Line {number} has no hash: {excerpt} Add --hash=sha256:...")
    name = re.sub(r"[-_.]+", "-", pin["name"]).lower()
    return Locked(name, pin["version"], (pin["marker"] or "").strip())
