"""Which files a run has left: those that its numbers come from, and those that stay there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from experiments.models import Chore, Job, Run, RunFile
from runners.directories import OUR_FILE_LIMIT, is_needed
from runners.records import TAIL, Record, RunRecord
from runners.transports.base import MIB
from runners.untrusted import clean_text

MOST_ROWS = 500
"""Of one run. Which others there are, its directory tells."""
HIDDEN = re.compile(r"(.*/)?\.", re.DOTALL)


def wanted_files(row: Job | Chore) -> set[str]:
    """Return the names, in a run's directory, that its workload reads besides Tare's own."""
    if isinstance(row, Chore):
        return set()
    names = row.runs.values_list("spec__workload__parameters__file", flat=True)
    return {name for name in names if name}


def damaged_files(run: Run, record: Record) -> list[str]:
    """Return the files that are read and do not match their check sums, or are not there.

    What a program keeps for itself, such as caches and checkpoints, never counts against a run.
    """
    wanted = wanted_files(run.job)
    folder = f"{run.folder}/"
    bad = (*record.bad_checksums, *record.missing)
    return [name for name in bad if name.startswith(folder) and is_needed(name, wanted)]


def unread_files(run: Run, found: RunRecord, record: Record) -> list[str]:
    """Say, a sentence each, which files that are to be read are too large for it."""
    wanted = wanted_files(run.job)
    return [
        f"{path} has {size / MIB:.0f} MiB, and Tare reads at most {OUR_FILE_LIMIT // MIB} MiB of "
        "a file: it stays on the cluster."
        for path, size in _files(run, record)
        if not _came(path, found) and is_needed(f"{run.folder}/{path}", wanted)
    ]


def keep_files(run: Run, found: RunRecord, record: Record) -> None:
    """Write down what the run left, in place of what an earlier attempt had left."""
    files = list(_files(run, record))
    rows = [
        _row(run, path, size, found, record)
        for path, size in files
        if not HIDDEN.match(path) and not _is_known(path, size, run, found)
    ]
    rows.sort(key=lambda row: (row.state != RunFile.State.DIFFERS, -row.size_bytes, row.path))
    run.files.all().delete()
    RunFile.objects.bulk_create(rows[:MOST_ROWS])
    total = sum(size for _, size in files)
    Run.objects.filter(pk=run.pk).update(files_count=len(files), files_bytes=total)


def _files(run: Run, record: Record) -> Iterator[tuple[str, int]]:
    """Yield path and size of each file in the run's directory."""
    folder = f"{run.folder}/"
    for name, size in record.sizes.items():
        if name.startswith(folder):
            yield name.removeprefix(folder), size


def _came(path: str, found: RunRecord) -> bool:
    """Whether the file itself was fetched."""
    return clean_text(path) in found.files


def _is_known(path: str, size: int, run: Run, found: RunRecord) -> bool:
    """Whether the page shows all that is in a file: Tare's own, of which nothing stayed behind."""
    if not _came(path, found) or not is_needed(f"{run.folder}/{path}"):
        return False
    return not path.endswith("output.txt") or size <= TAIL


def _row(run: Run, path: str, size: int, found: RunRecord, record: Record) -> RunFile:
    name = f"{run.folder}/{path}"
    digest = record.checksums.get(name, "")
    state = RunFile.State.SAME if digest and _came(path, found) else RunFile.State.STAYED
    shown = path.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return RunFile(
        run=run,
        path=shown,
        has_plain_name=shown == path,
        size_bytes=min(size, 2**63 - 1),
        sha256=digest[:64],
        state=RunFile.State.DIFFERS if name in record.bad_checksums else state,
    )
