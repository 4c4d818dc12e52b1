"""The files of a run: those that its results come from, and those left on the cluster."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from experiments.models import Job, Operation, Run, RunFile
from runners.directories import OUR_FILE_LIMIT, is_needed
from runners.records import TAIL, Record, RunRecord
from runners.transports.base import MIB
from runners.untrusted import clean_text

MOST_ROWS = 500
"""Rows for the files of one run; its directory on the cluster holds the others."""
HIDDEN = re.compile(r"(.*/)?\.", re.DOTALL)


def list_workload_files(row: Job | Operation) -> set[str]:
    """Return the names, in a run's directory, that its workload reads besides Tare's own."""
    if isinstance(row, Operation):
        return set()
    return list_files_of_workloads([row])[row.pk]


def list_files_of_workloads(jobs: Collection[Job]) -> dict[int, set[str]]:
    """Return what `list_workload_files` does for each of several jobs, by key, in one query."""
    names: dict[int, set[str]] = {job.pk: set() for job in jobs}
    runs = Run.objects.filter(job__in=names).order_by()
    for key, name in runs.values_list("job", "spec__workload__parameters__file"):
        if name:
            names[key].add(name)
    return names


def _name_workload_file(run: Run) -> set[str]:
    """Return the name, in the run's directory, that its workload reads besides Tare's own."""
    name = run.spec["workload"]["parameters"].get("file")
    return {name} if name else set()


def list_damaged_files(run: Run, record: Record) -> list[str]:
    """Return the files that Tare reads and that are missing or do not match their check sums.

    A program's own files, such as caches and checkpoints, never count against a run.
    """
    workload_files = _name_workload_file(run)
    folder = f"{run.folder}/"
    failing_files = (*record.bad_checksums, *record.missing)
    return [
        name
        for name in failing_files
        if name.startswith(folder) and is_needed(name, workload_files)
    ]


def explain_unread_files(run: Run, run_record: RunRecord, record: Record) -> list[str]:
    """Return a sentence for each file that Tare should read but that is too large."""
    workload_files = _name_workload_file(run)
    return [
        f"{path} has {size / MIB:.0f} MiB, and Tare reads at most {OUR_FILE_LIMIT // MIB} MiB of "
        "a file: it stays on the cluster."
        for path, size in list_files(run, record)
        if not _was_fetched(path, run_record) and is_needed(f"{run.folder}/{path}", workload_files)
    ]


def describe_files(run: Run, run_record: RunRecord, record: Record) -> list[RunFile]:
    """Return a row for each file that the run left and whose content no page shows."""
    rows = [
        _make_row(run, path, size, run_record, record)
        for path, size in list_files(run, record)
        if not HIDDEN.match(path) and not _is_known(path, size, run, run_record)
    ]
    rows.sort(key=lambda row: (row.state != RunFile.State.DIFFERS, -row.size_bytes, row.path))
    return rows[:MOST_ROWS]


def list_files(run: Run, record: Record) -> Iterator[tuple[str, int]]:
    """Yield path and size of each file in the run's directory."""
    folder = f"{run.folder}/"
    for name, size in record.sizes.items():
        if name.startswith(folder):
            yield name.removeprefix(folder), size


def _was_fetched(path: str, run_record: RunRecord) -> bool:
    """Return whether the file itself was fetched."""
    return clean_text(path) in run_record.files


def _is_known(path: str, size: int, run: Run, run_record: RunRecord) -> bool:
    """Return whether the page shows the file's whole content: Tare's own files, fetched whole."""
    if not _was_fetched(path, run_record) or not is_needed(f"{run.folder}/{path}"):
        return False
    return not path.endswith("output.txt") or size <= TAIL


def _make_row(run: Run, path: str, size: int, run_record: RunRecord, record: Record) -> RunFile:
    name = f"{run.folder}/{path}"
    digest = record.checksums.get(name, "")
    state = (
        RunFile.State.SAME if digest and _was_fetched(path, run_record) else RunFile.State.STAYED
    )
    printable_path = path.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return RunFile(
        run=run,
        path=printable_path,
        has_plain_name=printable_path == path,
        size_bytes=min(size, 2**63 - 1),
        sha256=digest[:64],
        state=RunFile.State.DIFFERS if name in record.bad_checksums else state,
    )
