"""What came of operations on copies of data sets and of code, stored with the copy."""

from __future__ import annotations

from typing import Any

from experiments.models import CodeCopy, DataCopy


def keep_copy_outcome(
    row: CodeCopy | DataCopy, result: dict[str, Any], problem: str, **columns: Any
) -> str:
    """Store what came of an operation on a copy; return the problem.

    Where nothing was learnt of the files, as when a job was lost, the earlier state stays.
    """
    states = type(row).State
    state = result.get("state") if problem else states.READY
    if problem:
        problem = (result.get("problem") or problem)[:2000]
    if not state:
        columns = {}
        state = states.FAILED if row.state == states.STAGING else row.state
    message = problem if state != states.READY else ""
    rows = type(row)._default_manager.filter(pk=row.pk)
    rows.update(state=state, message=message, **columns)
    return problem
