"""Read an ended job's files once more: what arrived late is kept, and nothing becomes less."""

from __future__ import annotations

from django.db import transaction

from experiments.execution.collect import came_to_its_own_end, keep_run, outcome
from experiments.execution.files_left import wanted_files
from experiments.execution.further_attempts import MAY_CHANGE
from experiments.execution.guard import guarded
from experiments.execution.journals import times
from experiments.execution.late_files import note_after_verdict, plan_next, verdict_is_out
from experiments.execution.lifecycle import move, record
from experiments.models import Job, Run
from runners.errors import Refused
from runners.records import Record, RunRecord, read_record
from runners.runner import Runner

WHY = "files that arrived late"


def collect_again(job: Job, runner: Runner) -> None:
    """Fetch what an ended job has left, and let runs succeed that it now says have succeeded."""
    wanted = wanted_files(job)
    try:
        found = read_record(runner.collect(job.directory, extra_files=wanted), extra_files=wanted)
    except FileNotFoundError:
        _note(job, "its directory is not there")
        plan_next(job, complete=False)
        return
    except Refused as refusal:
        _note(job, str(refusal))
        plan_next(job, complete=False)
        return
    changed = _keep_late(job, found)
    complete = found.exit_code is not None and not found.missing
    if not changed:
        _note(job, "nothing that was not known")
    plan_next(job, complete=complete)


def _note(job: Job, why: str) -> None:
    """Answer whoever asked; what the tick does by itself is told when it finds something."""
    if job.collect_asked_by:
        record(job.experiment, "collected again", job=job, why=why)


def _keep_late(job: Job, found: Record) -> int:
    """Write what the files say more than before, all of it or nothing; how many runs changed."""
    changed = 0
    is_out = verdict_is_out(job)
    with transaction.atomic():
        # Somebody may plan the next attempt meanwhile: then these files are of no use.
        rows = Job.objects.select_for_update().filter(pk=job.pk, attempt=job.attempt)
        if not rows.filter(state__in=Job.FINAL).exists():
            return 0
        for run in job.runs.filter(state__in=MAY_CHANGE).order_by("position"):
            left = found.runs.get(run.uid)
            if left is None or not came_to_its_own_end(left, found):
                continue
            with guarded(run, job.cluster), transaction.atomic():
                changed += _keep_late_run(job, run, left, found, is_out=is_out)
        if job.state == Job.State.FAILED and found.exit_code == 0:
            ended = {"reason": "", "message": "", "exit_code": 0, **times(job, found)}
            move(job, Job.State.DONE, why=WHY, **ended)
    return changed


def _keep_late_run(job: Job, run: Run, left: RunRecord, found: Record, *, is_out: bool) -> bool:
    """Keep what a run has left if that is more than what is known; whether it was."""
    state, reason, message, _ = outcome(run, left, found)
    if state == Run.State.SUCCEEDED:
        if not keep_run(run, left, found, why=WHY, by=job.collect_asked_by):
            return False
        if is_out:
            note_after_verdict(run, job.collect_asked_by)
        return True
    says_more = run.exit_code is None and (left.exit_code is not None or bool(left.failure))
    if run.state != Run.State.FAILED or not says_more:
        return False
    columns = {"reason": reason, "message": message, "exit_code": left.exit_code}
    for name, text in (("command", left.command), ("output_tail", left.output_tail)):
        if text:
            columns[name] = text
    Run.objects.filter(pk=run.pk, state=Run.State.FAILED).update(**columns)
    why = f"{WHY}: {message}"
    record(job.experiment, "collected again", job=job, run=run, why=why, by=job.collect_asked_by)
    return True


def put_off(job: Job, problem: str, *, is_away: bool = False) -> None:
    """Look again later: nothing could be made of the files now. `is_away`: nobody answered."""
    _note(job, problem)
    plan_next(job, complete=False, is_away=is_away)
