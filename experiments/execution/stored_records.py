"""Keeping what a run has printed and which files it left, whole or with what is left out said."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from experiments.execution.files_left import list_files
from experiments.models import Run, StoredRecord
from experiments.models.stored_record import MOST_BYTES
from runners.directories import is_needed
from runners.kept_output import DEFAULT_MIB, OUTPUT, OUTPUT_MIB, keep_output
from runners.records import Record, RunRecord
from runners.transports.base import MIB
from runners.untrusted import clean_text

if TYPE_CHECKING:
    from experiments.execution.run_ends import RunEnd

MOST_FILES = 5000
MOST_PATH_CHARACTERS = 500_000
"""Of all listed paths of a run."""
LONGEST_COMMAND = 100_000
"""Characters of a command inside the environment."""
QUICK = 3
"""The level of zlib: text becomes about a fifth, at 100 MB a second."""


def make_stored_record(run: Run, run_record: RunRecord, record: Record) -> StoredRecord:
    """Return the row that keeps a run's output and the list of its files."""
    sizes = dict(list_files(run, record))
    limit = run.spec.get(OUTPUT_MIB, DEFAULT_MIB) * MIB
    output = keep_output(run_record.files, sizes, limit)
    rows = _list_rows(run, sizes, record)
    listed = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()
    return StoredRecord(
        run=run,
        output=zlib.compress(output.content, QUICK),
        output_bytes=min(output.total_bytes, MOST_BYTES),
        output_left_out=min(output.left_out_bytes, MOST_BYTES),
        output_sha256=record.checksums.get(f"{run.folder}/{OUTPUT}", "")[:64],
        files=zlib.compress(listed, QUICK),
        files_listed=len(rows),
        files_left_out=len(sizes) - len(rows),
        facts=_choose_facts(run_record.own_facts),
    )


def _list_rows(run: Run, sizes: dict[str, int], record: Record) -> list[tuple[str, int, str]]:
    """Return path, size and check sum of the files of a run, by path.

    Of too many those that numbers come from are listed, then the largest.
    """
    chosen = sorted(sizes, key=lambda path: (not is_needed(f"{run.folder}/{path}"), -sizes[path]))
    rows, room = [], MOST_PATH_CHARACTERS
    for path in chosen[:MOST_FILES]:
        shown = clean_text(path)
        room -= len(shown)
        if room < 0:
            break
        digest = record.checksums.get(f"{run.folder}/{path}", "")[:64]
        rows.append((shown, min(sizes[path], MOST_BYTES), clean_text(digest)))
    return sorted(rows)


def _choose_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of the facts of a run alone, of bounded length."""
    argv: list[str] = []
    room = LONGEST_COMMAND
    for argument in facts.get("argv") or []:
        room -= len(argument)
        if room < 0:
            argv.append("(more arguments were left out)")
            break
        argv.append(argument)
    loaded = {
        name: value
        for name, value in (facts.get("loaded") or {}).items()
        if isinstance(value, int | float)
    }
    return {"argv": argv, "loaded": loaded}


def keep_stored_records(ends: Sequence[RunEnd]) -> None:
    """Store the stored records of runs, in place of those of an earlier attempt."""
    rows = [end.stored for end in ends if end.stored]
    if rows:
        StoredRecord.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["run"],
            update_fields=[
                *("output", "output_bytes", "output_left_out", "output_sha256"),
                *("files", "files_listed", "files_left_out", "facts"),
            ],
        )
