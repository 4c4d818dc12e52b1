"""What is kept of all that a run has printed: the whole, or its beginning and its end. No I/O.

Whatever the bytes are, they are kept as they are: programs print what is no UTF-8, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from runners.directories import END, HEAD

OUTPUT = "output.txt"
OUTPUT_MIB = "output_mib"
"""The name of the limit in plans and in what runs are sent with."""
DEFAULT_MIB = 2
MOST_MIB = 8
"""Of a file of more than 64 MiB so much is fetched: half of it at each end."""
MOST_PARTS = 256
"""Processes of a run whose output is kept."""
OF_A_PROCESS = re.compile(r"(?:instance-(\d{1,6})|rank-([1-9]\d{0,5}))/output\.txt")
"""What rank 0 prints is in the run's own output already."""


@dataclass(frozen=True)
class KeptOutput:
    """The output of a run as it is kept."""

    content: bytes
    """As it was printed; a line of Tare's own stands for what was left out."""
    total_bytes: int
    left_out_bytes: int


def keep_output(
    files: Mapping[str, bytes], sizes: Mapping[str, int], limit_bytes: int
) -> KeptOutput:
    """Return what is kept of a run's output, in at most `limit_bytes` and lines of Tare's own.

    `files` are those that were fetched of its directory, `sizes` those of all files there, by name.
    Of several processes each has an equal share, under a line with its name.
    """
    parts = sorted(filter(OF_A_PROCESS.fullmatch, sizes), key=_number)
    names = [name for name in (OUTPUT, *parts) if sizes.get(name)][:MOST_PARTS]
    if not names:
        return KeptOutput(b"", 0, 0)
    share = limit_bytes // len(names)
    pieces, total, left_out = [], 0, 0
    for name in names:
        kept = _cut(name, files, sizes[name], share)
        if name != OUTPUT:
            folder = name.partition("/")[0].replace("-", " ")
            pieces.append(f"\n--- {folder} ---\n".encode())
        pieces.append(kept.content)
        total += kept.total_bytes
        left_out += kept.left_out_bytes
    return KeptOutput(b"".join(pieces), total, left_out)


def _number(name: str) -> tuple[str, int]:
    noun, _, number = name.partition("/")[0].partition("-")
    return noun, int(number)


def _cut(name: str, files: Mapping[str, bytes], size: int, limit: int) -> KeptOutput:
    """Return a file as it is kept: whole if it is here and small enough, else its two ends."""
    whole = files.get(name)
    if whole is not None and len(whole) <= limit:
        return KeptOutput(whole, len(whole), 0)
    if whole is not None:
        size = len(whole)
    half = limit // 2
    head = (files.get(name + HEAD, b"") if whole is None else whole)[:half]
    tail = files.get(name + END, b"") if whole is None else whole
    tail = tail[max(0, len(tail) - (limit - half)) :]
    left_out = max(0, size - len(head) - len(tail))
    mark = f"\n--- {left_out:,} bytes were left out here by Tare ---\n".encode()
    return KeptOutput(head + mark + tail, size, left_out)
