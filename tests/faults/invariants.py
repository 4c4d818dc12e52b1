"""What must be true after any fault: each planned run executed once, and no result lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from experiments.models import Event, Experiment, Job, Run
from runners.journals import read_lines

ARROW = " → "
FOLDER = "runs"


@dataclass(frozen=True)
class Account:
    """What became of an experiment, as its rows, its cluster's disk and its counter tell it."""

    jobs: int
    runs: int
    executions: int
    executed_twice: tuple[str, ...]  # attempts at runs, by their directories
    not_executed: tuple[str, ...]  # runs that have succeeded all the same
    lost: tuple[str, ...]  # directories with a whole result that no succeeded run has
    forbidden: tuple[str, ...]  # events that the table of states does not allow
    unfinished: tuple[str, ...]  # jobs and runs

    @property
    def is_kept(self) -> bool:
        """Return whether all that Tare promises was kept."""
        return not (
            self.executed_twice
            or self.not_executed
            or self.lost
            or self.forbidden
            or self.unfinished
        )


def read_counter(counter: Path) -> Counter[str]:
    """Return how often each run's directory, JOB-ATTEMPT/runs/POSITION-RUN, was executed in."""
    lines = counter.read_text().splitlines() if counter.exists() else []
    return Counter("/".join(Path(line.split()[0]).parts[-3:]) for line in lines)


def make_account(experiment: Experiment, work: Path, counter: Path) -> Account:
    """Compare an experiment's rows with what lies on the cluster's disk and with the counter.

    `work` is the cluster's work directory as this process sees it.
    """
    counts = read_counter(counter)
    jobs = list(experiment.jobs.all())
    runs = list(experiment.runs.select_related("job"))
    succeeded = [run for run in runs if run.state == Run.State.SUCCEEDED]
    measured = set(
        experiment.runs.filter(measurements__metric="wall_time").values_list("uid", flat=True)
    )
    kept = {_name(run) for run in succeeded if run.uid in measured}
    return Account(
        jobs=len(jobs),
        runs=len(runs),
        executions=counts.total(),
        executed_twice=tuple(name for name, count in counts.items() if count > 1),
        not_executed=tuple(_name(run) for run in succeeded if not counts[_name(run)]),
        lost=tuple(sorted(_list_results(work, {job.uid for job in jobs}) - kept)),
        forbidden=tuple(_list_forbidden(jobs) + _list_forbidden(runs)),
        unfinished=tuple(row.uid for row in [*jobs, *runs] if row.state not in row.FINAL),
    )


def _name(run: Run) -> str:
    return f"{run.job.uid}-{run.job.attempt}/{run.folder}"


def _list_results(work: Path, uids: set[str]) -> set[str]:
    """Return the directories of these jobs' runs that came to their end with a result.

    Not of runs that were under way when their job was told to end: what a program writes then may
    be less than it would have measured, and counts as cut off.
    """
    return {
        "/".join(path.parts[-4:-1])
        for uid in uids
        for path in work.glob(f"jobs/{uid}-*/{FOLDER}/*/result.json")
        if _read(path.with_name("exit_code")) == "0" and not _was_cut_off(path.parent)
    }


def _was_cut_off(directory: Path) -> bool:
    """Return whether a job was told to end before this run of it had ended, by its journal."""
    journal = directory.parent.parent / "journal.ndjson"
    lines, _ = read_lines(journal.read_bytes() if journal.exists() else b"")
    uid = directory.name.partition("-")[2]
    events = [line["event"] for line in lines if line.get("run", uid) == uid]
    before, terminated, _ = "\n".join(events).partition("terminated")
    return bool(terminated) and "run ended" not in before


def _read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


def _list_forbidden(rows: list[Job] | list[Run]) -> list[str]:
    """Return the events of these rows that do not follow from the one before them."""
    is_job = bool(rows) and isinstance(rows[0], Job)
    states = {row.pk: "planned" for row in rows}
    events = Event.objects.filter(what__contains=ARROW).order_by("pk")
    if is_job:
        events = events.filter(run=None, job__in=states)
        keys = events.values_list("job_id", "what")
    else:
        keys = events.filter(run__in=states).values_list("run_id", "what")
    allowed = rows[0].NEXT if rows else {}
    forbidden = []
    for pk, what in keys:
        before, _, after = str(what).partition(ARROW)
        if pk is None or before != states[pk] or after not in allowed[before]:
            forbidden.append(f"{pk}: {what} in the state {states.get(pk or 0)}")
        states[pk or 0] = after
    forbidden += [f"{row.uid} is {row.state}" for row in rows if row.state != states[row.pk]]
    return forbidden
