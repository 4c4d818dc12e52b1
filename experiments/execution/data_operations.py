"""The operations that read a copy of a data set, and check that it is still the same."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from experiments.execution.copy_outcomes import keep_copy_outcome
from experiments.execution.operations import (
    KINDS,
    NotPossible,
    OperationKind,
    Work,
    parse_result,
)
from experiments.models import DataCopy, DataSet, Operation
from runners.data_sets import plan_check, plan_reading
from runners.records import Record
from runners.shapes import DATA_FILES

State = DataCopy.State
READING_SECONDS = 7 * 24 * 3600  # what the partition allows, for it goes on where it was ended


class ReadData(OperationKind):
    """Read all files of a copy: the first gives its data set the digest, others must have it."""

    def work(self, operation: Operation) -> Work:
        row = get_copy(operation)
        step = plan_reading(row.path, row.manifest, row.data_set.digest)
        return Work((step,), seconds=READING_SECONDS)

    def finish(self, operation: Operation, problem: str, record: Record) -> str:
        row, result = get_copy(operation), parse_result(record, DATA_FILES)
        if not problem and not {"digest", "files", "bytes"} <= result.keys():
            problem = "The reading ended well, but left nothing that can be read."
        if not problem:
            problem = _give_or_compare_digest(row, result)
        now = timezone.now()
        return keep_copy_outcome(row, result, problem, read_at=now, checked_at=now)


class CheckData(OperationKind):
    """Compare sizes and times of all files with those of the last reading."""

    def work(self, operation: Operation) -> Work:
        row = get_copy(operation)
        if not row.data_set.digest:
            raise NotPossible(f"{row} has never been read: check it in full.")
        return Work((plan_check(row.path, row.manifest, row.data_set.digest),))

    def finish(self, operation: Operation, problem: str, record: Record) -> str:
        row, result = get_copy(operation), parse_result(record, DATA_FILES)
        if not problem and result.get("digest") != row.data_set.digest:
            problem = "The check ended well, but left nothing that can be read."
        return keep_copy_outcome(row, result, problem, checked_at=timezone.now())


def get_copy(operation: Operation) -> DataCopy:
    """Return the copy that an operation is about. Raises NotPossible."""
    if operation.data_copy is None:
        raise NotPossible("What this was about is not in the catalogue any more.")
    return operation.data_copy


def _give_or_compare_digest(row: DataCopy, result: dict[str, Any]) -> str:
    """Give a data set that has none the digest that was found; return what differs, or ""."""
    DataSet.objects.filter(pk=row.data_set_id, digest="").update(
        digest=result["digest"],
        files=result["files"],
        size_bytes=result["bytes"],
        is_file=bool(result.get("is_file")),
    )
    known = DataSet.objects.get(pk=row.data_set_id).digest
    if known == result["digest"]:
        return ""
    result["state"] = State.CHANGED  # another copy was read meanwhile, and is another data set
    return f"Its digest is {result['digest']}, and that of the data set is {known}."


KINDS[Operation.Kind.READ_DATA] = ReadData()
KINDS[Operation.Kind.CHECK_DATA] = CheckData()
