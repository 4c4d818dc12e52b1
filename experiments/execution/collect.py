"""Bring a job's record home, in one transfer, and let its files decide what became of its runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.utils import timezone
from runners.records import Record, RunRecord, read_record
from runners.runner import Runner

from experiments.execution.links import job_spec
from experiments.lifecycle import end_runs, move
from experiments.models import Job, Measurement, Run, Series, Snapshot
from runners.schedulers import LastWord
from runners.workloads import WORKLOADS, Result, SanityError

# A shared file system may show the last files late; after this, silence is an answer.
FILES_MAY_BE_LATE = timedelta(seconds=30)


def collect(job: Job, runner: Runner) -> None:
    """Fetch the job's directory and end the job, unless its last files may still appear."""
    spec = job_spec(job)
    try:
        files = runner.collect(job.directory)
    except FileNotFoundError:
        files = {}
    found = read_record(files, spec)
    if found.exit_code is None:
        word = runner.last_words([job.scheduler_id]).get(job.scheduler_id)
        late = job.gone_at and timezone.now() - job.gone_at < FILES_MAY_BE_LATE
        if late and not job.cancel_requested_at and (word is None or not word.kind):
            return
        _keep(job, found, _failure(job, word))
    else:
        _keep(job, found, None)


def _failure(job: Job, word: LastWord | None) -> tuple[str, str]:
    """Name why a job left no exit code: the scheduler's last word, or lost."""
    if job.cancel_requested_at:
        return "cancelled", "cancelled by a person"
    if word is None or not word.kind:
        return "lost", (
            "The job left the queue without an exit code, and the scheduler does not say why. "
            f"Its files, if any, are in {job.directory} on {job.cluster}."
        )
    words = " ".join(part for part in (word.native, word.reason) if part)
    return word.kind, f"The scheduler says {words} (exit code {word.exit_code})."


def _keep(job: Job, found: Record, failure: tuple[str, str] | None) -> None:
    """Write all that the record says, then end the job: all of it or nothing."""
    reason, message = failure or ("", "")
    cancelled = reason == "cancelled"
    with transaction.atomic():
        for run in job.runs.filter(state__in=(Run.State.PLANNED, Run.State.RUNNING)):
            if run.uid in found.runs and run_ended(found.runs[run.uid]):
                keep_run(run, found.runs[run.uid], found.bad_checksums)
        if cancelled:
            end_runs(job, Run.State.CANCELLED, reason=reason, message=message)
        else:
            end_runs(
                job,
                Run.State.FAILED,
                reason=reason or "not run",
                message=message or "The job ended without a word about this run.",
            )
        to = Job.State.CANCELLED if cancelled else Job.State.FAILED
        move(
            job,
            to if failure else Job.State.DONE,
            why=message,
            reason=reason,
            message=message,
            exit_code=found.exit_code,
            started_at=_time(found.started_at) or job.started_at,
            ended_at=_time(found.ended_at) or timezone.now(),
        )


def run_ended(record: RunRecord) -> bool:
    """Whether the run itself came to an end, rather than being cut off with its job."""
    return record.exit_code is not None or bool(record.failure)


def keep_run(run: Run, record: RunRecord, bad_checksums: list[str]) -> None:
    """Store one run's outcome. A run that fails its sanity check gives no measurement."""
    state, reason, message, result = _outcome(run, record, bad_checksums)
    moved = move(
        run,
        state,
        why=message,
        reason=reason,
        message=message,
        exit_code=record.exit_code,
        node=record.node or run.node,
        began_at=_time(record.began) or run.began_at,
        ended_at=_time(record.ended) or timezone.now(),
        command=record.command,
        output_tail=record.output_tail,
        snapshot=Snapshot.objects.keep(record.snapshot) if record.snapshot else None,
        phases=result.phases if result else {},
    )
    if moved and result:
        Measurement.objects.bulk_create(
            Measurement(run=run, metric=name, value=value, unit=unit)
            for name, (value, unit) in result.measurements.items()
        )
        Series.objects.bulk_create(
            Series(run=run, metric=name, unit=unit, values=list(values))
            for name, (unit, values) in result.series.items()
        )


def _outcome(
    run: Run, record: RunRecord, bad_checksums: list[str]
) -> tuple[str, str, str, Result | None]:
    """Return state, reason, message and, for a sane run alone, its result."""
    damaged = [path for path in bad_checksums if run.uid in path]
    if record.failure:
        return Run.State.FAILED, record.failure.partition(":")[0][:40], record.failure, None
    if record.exit_code != 0:
        last = record.output_tail.rstrip().rpartition("\n")[2][:500]
        message = f"The program ended with exit code {record.exit_code}. Last line: {last}"
        return Run.State.FAILED, "crashed", message, None
    if damaged:
        message = f"{', '.join(damaged)} does not match its check sum."
        return Run.State.FAILED, "damaged", message, None
    try:
        result = WORKLOADS[run.spec["workload"]["kind"]].read(record.result)
    except SanityError as error:
        return Run.State.FAILED, "not sane", str(error), None
    return Run.State.SUCCEEDED, "", "", result


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)
