"""The operations that put code on a cluster, check it there, and remove it."""

from __future__ import annotations

from django.utils import timezone

from experiments.code_copies.archives import find_kept
from experiments.execution.copy_outcomes import keep_copy_outcome
from experiments.execution.operations import (
    KINDS,
    NotPossible,
    OperationKind,
    Work,
    parse_result,
)
from experiments.images import store
from experiments.models import CodeCopy, Operation
from runners.code_copies import (
    ARCHIVE_NAME,
    plan_check,
    plan_fetching,
    plan_removal,
    plan_unpacking,
)
from runners.records import Record
from runners.shapes import CODE_TREE

State = CodeCopy.State
PUT_SECONDS = 3600


class FetchCode(OperationKind):
    """Unpack an archive that is sent, or fetch a commit, into a folder of the cluster."""

    def work(self, operation: Operation) -> Work:
        row = get_copy(operation)
        digest = find_known_digest(row)
        if row.commit:
            return Work((plan_fetching(row.path, row.source, digest),), seconds=PUT_SECONDS)
        archive = find_kept(row.archive_id or "")
        if archive is None:
            raise NotPossible("The archive is not on this site any more: send it again.")
        step = plan_unpacking(row.path, archive.sha256, archive.digest)
        content = store.get_path(archive.sha256).read_bytes()
        return Work((step,), files=((ARCHIVE_NAME, content),), seconds=PUT_SECONDS)

    def finish(self, operation: Operation, problem: str, record: Record) -> str:
        row, result = get_copy(operation), parse_result(record, CODE_TREE)
        if not problem and not {"digest", "files", "bytes"} <= result.keys():
            problem = "It ended well, but left nothing that can be read."
        if problem:
            return keep_copy_outcome(row, result, problem)
        left_out = {name: result[name] for name in ("submodules", "pointers") if result.get(name)}
        return keep_copy_outcome(
            row,
            result,
            "",
            digest=result["digest"],
            files=result["files"],
            size_bytes=result["bytes"],
            left_out=left_out,
            paths=result.get("paths") or None,
            read_at=timezone.now(),
        )


class CheckCode(OperationKind):
    """Read all files of a copy and compare its digest."""

    def work(self, operation: Operation) -> Work:
        row = get_copy(operation)
        return Work((plan_check(row.path, row.digest),))

    def finish(self, operation: Operation, problem: str, record: Record) -> str:
        row, result = get_copy(operation), parse_result(record, CODE_TREE)
        if not problem and result.get("digest") != row.digest:
            problem = "The check ended well, but left nothing that can be read."
        return keep_copy_outcome(row, result, problem, read_at=timezone.now())


class DropCode(OperationKind):
    """Remove the files of a copy, and forget it."""

    def work(self, operation: Operation) -> Work:
        return Work((plan_removal(get_copy(operation).path),))

    def finish(self, operation: Operation, problem: str, record: Record) -> str:
        row = operation.code_copy
        if row is None:
            return problem
        if problem:
            message = f"Not removed. {problem}"[:2000]
            CodeCopy.objects.filter(pk=row.pk).update(state=State.FAILED, message=message)
            return problem
        operation.code_copy = None
        row.delete()
        return ""


def find_known_digest(row: CodeCopy) -> str:
    """Return the digest that code has to have, as far as another copy or a former one tells."""
    if row.archive:
        return row.archive.digest
    known = CodeCopy.objects.of_source(row.source).exclude(digest="").order_by("pk")
    return row.digest or known.values_list("digest", flat=True).first() or ""


def get_copy(operation: Operation) -> CodeCopy:
    """Return the copy that an operation is about. Raises NotPossible."""
    if operation.code_copy is None:
        raise NotPossible("What this was about is not on the cluster any more.")
    return operation.code_copy


KINDS[Operation.Kind.FETCH_CODE] = FetchCode()
KINDS[Operation.Kind.CHECK_CODE] = CheckCode()
KINDS[Operation.Kind.DROP_CODE] = DropCode()
