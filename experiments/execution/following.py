"""Following live jobs and operations: what their journals gain moves their runs and steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import transaction

from experiments.execution.guard import contain_failure, handle_together
from experiments.execution.journals import parse_moment
from experiments.execution.moves import Move, lock_in_order, move_each, update_each
from experiments.models import Job, Operation, Run
from runners.journals import parse_journal
from runners.runner import Runner


@dataclass(frozen=True)
class News:
    """The lines that a journal has gained, and its offset in bytes after them."""

    lines: Sequence[Mapping[str, Any]]
    offset: int


def follow(rows: Sequence[Job | Operation], runner: Runner) -> bool:
    """Read the new part of each live row's journal in one call, and update its runs or steps.

    A part that cannot be read is skipped: the files decide in the end. Return whether any was new.
    """
    by_directory = {row.directory: row for row in rows}
    contents = runner.read_journals({row.directory: row.journal_offset for row in rows})
    news: dict[Job | Operation, News] = {}
    for directory, content in contents.items():
        row = by_directory[directory]
        skip = partial(_skip, row, row.journal_offset + len(content))
        with contain_failure(row, row.cluster, skip):
            lines, size = parse_journal(content)
            if size:
                news[row] = News(lines, row.journal_offset + size)
    has_news = bool(news)
    for row in [row for row in news if isinstance(row, Operation)]:
        with contain_failure(row, row.cluster, partial(_skip, row, news[row].offset)):
            follow_steps(row, news.pop(row), runner)

    def skip_job(job: Job, problem: str) -> None:
        _skip(job, news[job].offset)

    def follow_all(jobs: Sequence[Job]) -> None:
        follow_jobs({job: news[job] for job in jobs})

    handle_together([row for row in news if isinstance(row, Job)], follow_all, skip_job)
    return has_news


def _skip(row: Job | Operation, offset: int, problem: str = "") -> None:
    """Have the next visit read the journal from `offset` on."""
    type(row)._default_manager.filter(pk=row.pk).update(journal_offset=offset)


def follow_jobs(news: Mapping[Job, News]) -> None:
    """Move the runs of which journals say that they have begun, and note which have ended.

    What became of a run is decided by its files, which come home with its whole job.
    """
    uids = {str(line.get("run")) for gained in news.values() for line in gained.lines}
    runs = Run.objects.filter(job__in=[job.pk for job in news], uid__in=uids)
    by_name = {(run.job_id, run.uid): run for run in runs.only(*Run.MOVED).order_by("pk")}
    begun: dict[int, Move[Run]] = {}
    ended: dict[int, Run] = {}
    for job, gained in news.items():
        for line in gained.lines:
            run = by_name.get((job.pk, str(line.get("run"))))
            if run is None:
                continue
            moment = parse_moment(line["time"])
            if line["event"] == "run began" and run.state == Run.State.PLANNED:
                columns = {"began_at": moment, "node": line.get("node") or ""}
                begun.setdefault(run.pk, Move(run, "", columns))
            elif line["event"] == "run ended":
                run.ended_at, run.exit_code = moment, line.get("exit_code")
                ended[run.pk] = run
    with transaction.atomic():
        lock_in_order(list(news))
        move_each(list(begun.values()), Run.State.PLANNED, Run.State.RUNNING)
        running = [run for run in ended.values() if run.state == Run.State.RUNNING]
        update_each(running, ["ended_at", "exit_code"], state=Run.State.RUNNING)
        for job, gained in news.items():
            job.journal_offset = gained.offset
        update_each(list(news), ["journal_offset"])


def follow_steps(operation: Operation, news: News, runner: Runner) -> None:
    """Write down which step an operation has come to, and what it printed last."""
    steps = [line for line in news.lines if line["event"] == "step"]
    columns: dict[str, Any] = {
        "output_tail": runner.read_tail(f"{operation.directory}/output.txt"),
        "journal_offset": news.offset,
    }
    if steps:
        last = steps[-1]
        columns |= {"doing": last["doing"][:300], "step": last["number"], "steps": last["of"]}
    Operation.objects.filter(pk=operation.pk).update(**columns)
