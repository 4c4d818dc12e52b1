"""Files that are too large to be carried: they are listed, and both ends of what is read come."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from runners.directories import (
    END,
    END_COUNT,
    END_LIMIT,
    ENTRY,
    HEAD,
    NO_ENDS,
    OUR_FILE_LIMIT,
    Fetched,
    is_needed,
)
from runners.transports.base import MIB

LEFT_THERE = ".left-there"
"""In a job's folder of the archive: sizes and names of what stays, each ended by NUL."""
LONGEST_LIST = MIB
LARGEST = 1 << 50  # bytes of a file


def add_left_there(
    fetched: Fetched, folder: Path, extra_files: Collection[str] = ()
) -> dict[str, int]:
    """Add what a job's folder says of files that stayed on the machine, as if they had been listed.

    Return the sizes in bytes of those that Tare reads, by name. The list is as odd as any file of
    an archive: what it names is left there only if it is larger than what comes whole.
    """
    if LEFT_THERE not in fetched.sizes:
        return {}
    with (folder / LEFT_THERE).open("rb") as file:
        entries = file.read(LONGEST_LIST).split(b"\0")[:-1]
    left = {}
    for match in filter(None, map(ENTRY.fullmatch, entries)):
        name = match[2].decode(errors="surrogateescape")
        size = int(match[1])
        if OUR_FILE_LIMIT < size <= LARGEST and name not in fetched.sizes:
            left[name] = size
    needed = {name: size for name, size in left.items() if is_needed(name, extra_files)}
    with_ends = [name for name in needed if f"{name}{END}" in fetched.sizes]
    for name in [name for name in with_ends if not name.endswith(NO_ENDS)][:END_COUNT]:
        _add_end(fetched, folder, f"{name}{END}")
        if f"{name}{HEAD}" in fetched.sizes:
            _add_end(fetched, folder, f"{name}{HEAD}")
    for name in (LEFT_THERE, *(f"{name}{each}" for name in left for each in (HEAD, END))):
        fetched.sizes.pop(name, None)  # they are no files of the job
    fetched.sizes.update(left)
    return needed


def _add_end(fetched: Fetched, folder: Path, name: str) -> None:
    with (folder / name).open("rb") as file:  # it was listed as a regular file below the folder
        fetched[name] = file.read(END_LIMIT)
