"""Journals of jobs: read events from a record, and update runs and operations by them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from experiments.execution.moves import move
from experiments.models import Job, Operation, Run
from runners.records import Record


def find_journal_line(record: Record, event: str, uid: str | None = None) -> dict[str, Any]:
    """Return the journal's last line about `event` (of run `uid`), or an empty one."""
    lines = [
        line
        for line in record.journal
        if line["event"] == event and (uid is None or line.get("run") == uid)
    ]
    return lines[-1] if lines else {}


def parse_moment(seconds: float | None) -> datetime | None:
    """Return seconds since the epoch as a time in UTC; None stays None."""
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)


def read_times(row: Job | Operation, record: Record) -> dict[str, Any]:
    """Return the columns of start and end, by the node's clock if its journal has them."""
    return {
        "started_at": parse_moment(find_journal_line(record, "job started").get("time"))
        or row.started_at,
        "ended_at": parse_moment(find_journal_line(record, "job ended").get("time"))
        or timezone.now(),
    }


def follow_runs(job: Job, lines: list[dict[str, Any]]) -> None:
    """Move the runs of which the journal says that they have begun, and note which have ended.

    What became of a run is decided by its files, which come home with its whole job.
    """
    named = {str(line.get("run")) for line in lines}
    runs = {run.uid: run for run in job.runs.filter(uid__in=named).only(*Run.MOVED)}
    for line in lines:
        run = runs.get(str(line.get("run")))
        if run and line["event"] == "run began" and run.state == Run.State.PLANNED:
            began = parse_moment(line["time"])
            move(run, Run.State.RUNNING, began_at=began, node=line.get("node") or "")
        elif run and line["event"] == "run ended":
            Run.objects.filter(pk=run.pk, state=Run.State.RUNNING).update(
                ended_at=parse_moment(line["time"]), exit_code=line.get("exit_code")
            )


def follow_steps(operation: Operation, lines: list[dict[str, Any]], output_tail: str) -> None:
    """Write down which step an operation has come to, and what it printed last."""
    steps = [line for line in lines if line["event"] == "step"]
    columns: dict[str, Any] = {"output_tail": output_tail}
    if steps:
        last = steps[-1]
        columns |= {"doing": last["doing"][:300], "step": last["number"], "steps": last["of"]}
    Operation.objects.filter(pk=operation.pk).update(**columns)
