"""Bring a job's record home, in one transfer, and let its files decide what became of its runs."""

from __future__ import annotations

import math
from datetime import timedelta
from functools import partial
from textwrap import shorten

from django.db import transaction
from django.utils import timezone

from experiments.comparisons.step_summaries import add_step_summary
from experiments.execution.files_left import damaged_files, keep_files, unread_files, wanted_files
from experiments.execution.guard import guarded
from experiments.execution.journals import journalled, moment, times
from experiments.execution.late_files import plan_next
from experiments.execution.lifecycle import end_runs, move
from experiments.execution.lifecycle import record as note_event
from experiments.execution.operations import NOTHING, keep_chore
from experiments.execution.repairs import is_taken_back, plan_on_any_node
from experiments.models import Chore, Job, Measurement, Run, Series, Snapshot, User
from experiments.models.states import NOT_STARTED
from experiments.snapshots import differing
from runners.directories import Fetched
from runners.errors import Refused
from runners.exit_codes import describe_exit_code
from runners.records import Record, RunRecord, name_failure, read_record
from runners.runner import Runner
from runners.terminal import plain_text
from runners.untrusted import clean_text
from runners.workloads import WORKLOADS, Result, SanityError

# A shared file system may show the last files late; after this, silence is an answer.
FILES_MAY_BE_LATE = timedelta(seconds=30)


MOST_STEPS = 2**31 - 1  # that a column counts
LONGEST_MESSAGE = 5000  # characters


def collect(row: Job | Chore, runner: Runner) -> None:
    """Fetch what was left and end the job or chore, unless its last files may still appear."""
    ending = _ending(row, runner)
    if ending is None:
        return
    if isinstance(row, Job):
        _keep(row, *ending)
    else:
        keep_chore(row, *ending)


def _ending(row: Job | Chore, runner: Runner) -> tuple[Record, str, str] | None:
    """The record, and why it is a failure in one word and in many; None: look again later."""
    wanted = wanted_files(row)
    place = f"Its files are in {row.directory} on {row.cluster}."
    is_there = True
    try:
        files = runner.collect(row.directory, extra_files=wanted)
    except FileNotFoundError:
        files, is_there = Fetched({}, {}), False
        place = f"Its directory {row.directory} on {row.cluster} is not there."
    except Refused as refusal:  # a file system that says no, or more than one transfer holds
        if not row.cancel_requested_at and _files_may_be_late(row):
            return None
        return read_record({}), "unreadable", f"{str(refusal).rstrip('.')}. {place}"
    record = read_record(files, extra_files=wanted)
    if record.exit_code == 0:
        return None if record.missing and _files_may_be_late(row) else (record, "", "")
    word = runner.read_endings([row.scheduler_id]).get(row.scheduler_id)
    reason, message = name_failure(record, word)
    if reason == "lost" and not row.cancel_requested_at and _files_may_be_late(row):
        return None
    if reason == "lost" and is_there and record.started_by is None:
        # A job that finds no room leaves no word either, and not every site keeps accounts.
        no = runner.why_not_written(row.directory)
        if no and no.kind == "disk full":
            reason, message = no.kind, f"the job left nothing, and there is no room for it: {no}"
    return record, reason, f"{message}. {place}"


def keep_damaged(row: Job | Chore, problem: str) -> None:
    """End a row whose files nothing could be made of. The files stay where they are."""
    message = f"{problem.rstrip('.')}. Its files are in {row.directory} on {row.cluster}."
    if isinstance(row, Job):
        _keep(row, NOTHING, "damaged", message)
        return
    with guarded(row, row.cluster, partial(_end_damaged, row, message)):
        keep_chore(row, NOTHING, "damaged", message)


def _end_damaged(chore: Chore, message: str, problem: str) -> None:
    """End a chore that its own kind cannot end."""
    to = Chore.State.CANCELLED if chore.cancel_requested_at else Chore.State.FAILED
    move(chore, to, reason="damaged", message=f"{message} {problem}", ended_at=timezone.now())


def _files_may_be_late(row: Job | Chore) -> bool:
    return row.gone_at is not None and timezone.now() - row.gone_at < FILES_MAY_BE_LATE


def _keep(job: Job, record: Record, reason: str, message: str) -> None:
    """Write all that the record says, then end the job: all of it or nothing."""
    cancelled = bool(reason and job.cancel_requested_at)
    has_begun = record.started_by or record.journal or reason in ("damaged", "unreadable")
    if cancelled and is_taken_back(job) and not has_begun:
        plan_on_any_node(job)
        return
    if cancelled:
        reason, message = "cancelled", "cancelled by a person"
    damage = f"Its journal cannot be read: {'; '.join(record.damage)}." if record.damage else ""
    with transaction.atomic():
        if damage:
            note_event(job.experiment, "damaged journal", job=job, why=damage)
        for run in job.runs.filter(state__in=(Run.State.PLANNED, Run.State.RUNNING)):
            found = record.runs.get(run.uid)
            with guarded(run, job.cluster, partial(_keep_damaged_run, run)), transaction.atomic():
                if found and came_to_its_own_end(found, record):
                    keep_run(run, found, record)
                elif found:
                    _keep_what_came(run, found, record)
                if reason and not cancelled and _never_began(run, record):
                    _end_unstarted(run, record, message)
        end_runs(
            job,
            Run.State.CANCELLED if cancelled else Run.State.FAILED,
            reason=reason or ("damaged" if damage else "not run"),
            message=message or damage or "The job ended without a word about this run.",
        )
        ended = Job.State.CANCELLED if cancelled else Job.State.FAILED
        move(
            job,
            ended if reason else Job.State.DONE,
            why=message,
            reason=reason,
            message=message,
            exit_code=record.exit_code,
            **times(job, record),
        )
        if not cancelled:
            plan_next(job, complete=record.exit_code is not None and not record.missing)


def _never_began(run: Run, record: Record) -> bool:
    """Whether the job's journal is whole and says nothing of this run."""
    has_word = record.damage or not record.journal or journalled(record, "run began", run.uid)
    return run.state == Run.State.PLANNED and not has_word


def _end_unstarted(run: Run, record: Record, message: str) -> None:
    """End a run that another one's end kept from starting: what ended that one is not its own."""
    uid = journalled(record, "run began").get("run")
    last = Run.objects.filter(uid=uid, job=run.job_id).select_related("environment").first()
    when = f"in its run of {last.environment}" if last else "before its first run"
    message = f"Not started, because its job ended {when}: {message}"
    move(run, Run.State.FAILED, why=message, reason=NOT_STARTED, message=message)


def _keep_damaged_run(run: Run, problem: str) -> None:
    """End a run whose files nothing could be made of; those beside it keep their numbers."""
    message = f"{problem.rstrip('.')}. Its files are in {run.job.directory} on {run.job.cluster}."
    now = timezone.now()
    move(run, Run.State.FAILED, why=message, reason="damaged", message=message, ended_at=now)


def came_to_its_own_end(found: RunRecord, record: Record) -> bool:
    """Whether the run ended by itself, rather than being cut off together with its job."""
    if found.failure:
        return True
    terminated = journalled(record, "terminated").get("time", math.inf)
    return found.exit_code is not None and found.ended is not None and found.ended < terminated


def keep_run(
    run: Run, found: RunRecord, record: Record, *, why: str = "", by: User | None = None
) -> bool:
    """Store one run's outcome; False if somebody was faster.

    A run that fails its sanity check gives no measurement.
    """
    state, reason, message, result = outcome(run, found, record)
    snapshot = {
        "inside": found.snapshot,
        "outside": dict(record.snapshot),
        "runtime": found.runtime_version,
        "image": run.spec["environment"]["image_digest"],
    }
    if others := differing(found.snapshot, found.others):
        snapshot["others"] = others
    moved = move(
        run,
        state,
        why=" ".join(filter(None, [why, message])),
        by=by,
        reason=reason,
        message=message,
        exit_code=found.exit_code,
        node=journalled(record, "run began", run.uid).get("node") or "",
        began_at=moment(found.began),
        ended_at=moment(found.ended) or timezone.now(),
        command=found.command,
        output_tail=found.output_tail,
        snapshot=Snapshot.objects.keep(snapshot),
        phases=result.phases if result else {},
    )
    if not moved:
        return False
    keep_files(run, found, record)
    if result is None:
        _keep_steps(run, found)
        return True
    Measurement.objects.bulk_create(
        Measurement(run=run, metric=name, value=value, unit=unit)
        for name, (value, unit) in result.measurements.items()
    )
    run.series.all().delete()  # what an earlier attempt had come to
    said = result.facts.get("burn_in")
    is_count = isinstance(said, int) and not isinstance(said, bool) and 0 <= said <= MOST_STEPS
    burn_in = said if is_count else None
    Series.objects.bulk_create(
        add_step_summary(
            Series(
                run=run,
                metric=name,
                unit=unit,
                values=list(values),
                steps=result.steps.get(name),
                burn_in=burn_in,
            )
        )
        for name, (unit, values) in result.series.items()
    )
    return True


def _keep_what_came(run: Run, found: RunRecord, record: Record) -> None:
    """Of a run that was cut off together with its job: where it stood, for whoever looks."""
    columns = {"command": found.command, "output_tail": found.output_tail}
    Run.objects.filter(pk=run.pk).update(**columns)
    keep_files(run, found, record)
    _keep_steps(run, found)


def _keep_steps(run: Run, found: RunRecord) -> None:
    """How far a run came that gives no number. Nothing compares it."""
    workload = run.spec["workload"]
    so_far = WORKLOADS[workload["kind"]].read_partial(found.files, workload["parameters"])
    run.series.all().delete()  # what an earlier attempt had come to
    Series.objects.bulk_create(
        Series(run=run, metric=name, unit=unit, values=values, steps=so_far.steps.get(name))
        for name, (unit, values) in so_far.series.items()
    )


def outcome(run: Run, found: RunRecord, record: Record) -> tuple[str, str, str, Result | None]:
    """Return state, reason, message and, for a sane run alone, its result."""
    if found.failure:
        return Run.State.FAILED, found.failure.partition(":")[0][:40], found.failure, None
    if found.exit_code != 0:
        last = plain_text(found.output_tail).rpartition("\n")[2][:500] or "nothing was printed"
        code = describe_exit_code(found.exit_code)
        how = found.culprit or f"The program ended with exit code {code}"
        message = f"{how[0].upper()}{how[1:]}: {last}"
        return Run.State.FAILED, "crashed", message, None
    if damaged := damaged_files(run, record):
        message = f"{clean_text(', '.join(damaged))} does not match its check sum."
        return Run.State.FAILED, "damaged", message, None
    if found.damage:
        return Run.State.FAILED, "damaged", f"{found.damage}.", None
    try:
        workload = run.spec["workload"]
        result = WORKLOADS[workload["kind"]].read(found.files, workload["parameters"])
    except SanityError as error:
        too_large = unread_files(run, found, record)
        reason = "too large" if too_large else "not sane"
        message = clean_text(" ".join([*too_large, str(error)]))
        return Run.State.FAILED, reason, shorten(message, LONGEST_MESSAGE, placeholder=" ..."), None
    return Run.State.SUCCEEDED, "", result.note, result
