"""The files of which programs consist, as snapshots name them: they came from a node."""

from __future__ import annotations

from typing import Any

from django.db.models.fields.json import KeyTransform

from experiments.models import Snapshot
from experiments.provenance.origins import ProgramFile

MOST_FILES = 50
"""Of a program, that are named one by one."""
LONGEST = 1000
"""Characters of a path or a check sum."""
Program = tuple[tuple[ProgramFile, ...], tuple[str, ...]]


def read_programs(snapshots: set[int], with_checkouts: bool) -> dict[int, Program]:
    """Return the files of the programs by snapshot, and a sentence for each git checkout."""
    inside = KeyTransform("program", KeyTransform("inside", "content"))
    rows = Snapshot.objects.filter(pk__in=snapshots).values_list(
        "pk", KeyTransform("files", inside), KeyTransform("checkouts", inside)
    )
    return {
        pk: (_take_files(files), _take_checkouts(checkouts) if with_checkouts else ())
        for pk, files, checkouts in rows
    }


def _take_files(files: Any) -> tuple[ProgramFile, ...]:
    """Return the files that a snapshot names with a check sum; it came from a node."""
    taken = {}
    for file in files if isinstance(files, list) else []:
        if isinstance(file, dict) and isinstance(file.get("sha256"), str) and file["sha256"]:
            size = file.get("bytes")
            taken[file["sha256"]] = ProgramFile(
                str(file.get("path", ""))[:LONGEST],
                file["sha256"][:LONGEST],
                size if isinstance(size, int) else None,
            )
    return tuple(list(taken.values())[:MOST_FILES])


def _take_checkouts(checkouts: Any) -> tuple[str, ...]:
    if not isinstance(checkouts, dict):
        return ()
    return tuple(
        f"{folder[:LONGEST]} at commit {str(facts.get('commit') or 'unknown')[:40]}"
        for folder, facts in sorted(checkouts.items())
        if isinstance(facts, dict)
    )
