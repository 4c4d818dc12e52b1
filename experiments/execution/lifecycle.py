"""What people do with experiments, jobs and runs: launch, cancel, stop, retry. No network.

Each change of state goes through `experiments.execution.moves`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Model
from django.db.models.functions import Now
from django.utils import timezone

from experiments.access.permissions import why_not_use
from experiments.comparisons import TRIED_AGAIN, compare_experiment
from experiments.design import compute_hash, draw_seed
from experiments.execution.further_attempts import NotDone, find_further_attempts, require_use
from experiments.execution.moves import move, move_all, record_event
from experiments.execution.planned_jobs import make_job, make_runs
from experiments.models import Experiment, Job, Run, RunFile, Segment, StoredRecord, User
from experiments.planning.freeze import freeze_definition
from experiments.planning.frozen_code import lock_code_copies
from experiments.planning.frozen_data import list_data_and_workloads, lock_copies
from experiments.planning.interim import read_stage
from experiments.planning.variants import (
    CannotBeSwept,
    drop_unused,
    list_chosen,
    lock_workloads,
    refresh_sweeps,
)
from experiments.software import frozen_parity, parity_reports
from experiments.software.launch_refusals import list_launch_refusals

REFUSED = "refused"
"""The reason of a job that no scheduler has accepted."""
NEVER_STARTED = (
    *(REFUSED, "cancelled outside", "node failure", "controller failure"),
    *("lost before it began", "gone before it began"),
)
"""Reasons of failed jobs of which, if they never started, no outcome can be known."""

CANNOT_RETRY = (
    "This job cannot be tried again: one of its runs has ended well, or a planned analysis has "
    "judged without it."
)

# The columns that the next attempt of a job resets. The events keep the history.
JOB_ANEW: dict[str, Any] = {
    **dict.fromkeys(("reason", "message", "scheduler_id", "scheduler_state", "directory"), ""),
    **dict.fromkeys(("exit_code", "submitted_at", "started_at", "gone_at", "ended_at")),
    **dict.fromkeys(("expected_start_at", "excluded_nodes")),
    **dict.fromkeys(("journal_offset", "collect_tries", "collecting_attempts"), 0),
    **dict.fromkeys(("collect_at", "collect_asked_by", "collecting_tried_at", "snapshot")),
    **dict.fromkeys(("verified_at", "cancel_requested_at", "cancel_sent_at")),
}
RUN_ANEW: dict[str, Any] = {
    **dict.fromkeys(("reason", "message", "node", "command", "output_tail"), ""),
    **dict.fromkeys(("exit_code", "began_at", "ended_at", "files_count", "files_bytes")),
    "snapshot": None,
    "phases": {},
}


class NotLaunchable(Exception):
    """The experiment cannot be launched; `messages` says why, by field."""

    def __init__(self, messages: dict[str, list[str]]) -> None:
        super().__init__(" ".join(text for texts in messages.values() for text in texts))
        self.messages = messages


def launch(experiment: Experiment, by: User) -> None:
    """Freeze the experiment, hash its plan and plan its jobs. Raises NotLaunchable.

    What is frozen is what is stored: nobody changes it, its workloads or the copies of their data
    in between.
    """
    with transaction.atomic():
        try:
            experiment.refresh_from_db(from_queryset=Experiment.objects.lock_drafts())
        except Experiment.DoesNotExist:
            raise NotLaunchable({"": ["This experiment has been launched already."]}) from None
        lock_workloads([row.pk for row in list_chosen(experiment)])
        try:
            refresh_sweeps(experiment)
        except CannotBeSwept as problem:
            raise NotLaunchable({"workloads": [str(problem)]}) from None
        lock_copies(experiment)
        lock_code_copies(experiment)
        parity = parity_reports.make_reports(experiment)
        if problems := _list_refusals(experiment, parity, by):
            raise NotLaunchable(problems)
        seed = draw_seed()
        plan = freeze_definition(experiment, seed)
        plan |= {"parity": frozen_parity.freeze_reports(parity)}
        frozen: dict[str, Any] = {
            "order_seed": seed,
            "plan": plan,
            "plan_hash": compute_hash(plan),
            "launched_at": timezone.now(),
        }
        Experiment.objects.filter(pk=experiment.pk).update(**frozen)
        for name, value in frozen.items():
            setattr(experiment, name, value)
        _create_jobs(experiment, plan)
        record_event(experiment, "launched", why=f"plan {experiment.plan_hash}, seed {seed}", by=by)


def _list_refusals(experiment: Experiment, parity: Any, by: User) -> dict[str, list[str]]:
    """Return the reasons why the experiment cannot be launched, by form field."""
    problems = list_launch_refusals(
        experiment,
        workloads=list(experiment.workloads.all()),
        environments=list(experiment.environments.select_related("staged_image__image__owner")),
        baseline=experiment.baseline,
    )
    if unwaived := parity_reports.explain_unwaived(parity):
        problems.setdefault("environments", []).extend(unwaived)
    for name, rows in _group_requirements(experiment).items():
        for row in rows:
            if why_not := why_not_use(by, row):
                problems.setdefault(name, []).append(why_not)
    return problems


def _group_requirements(experiment: Experiment) -> dict[str, list[Model]]:
    """Return the rows that the person who launches must be allowed to use, by form field."""
    return {
        "cluster": [experiment.cluster],
        "workloads": list_data_and_workloads(experiment),
        "environments": [*experiment.environments.all()],
    }


def discard(experiment: Experiment) -> bool:
    """Delete a draft; return False if it has been launched: then it must be kept."""
    with transaction.atomic():
        draft = Experiment.objects.lock_drafts().filter(pk=experiment.pk).first()
        if draft:
            parents = {row.pk for row in list_chosen(draft)} if draft.sweeps else set()
            draft.delete()
            drop_unused(parents)
    return draft is not None


def _create_jobs(experiment: Experiment, plan: dict[str, Any]) -> None:
    """Create the jobs and runs of the frozen plan."""
    workloads = {row.pk: row for row in experiment.workloads.all()}
    jobs = Job.objects.bulk_create(
        make_job(experiment, workloads[int(block["workload"])], block, index, plan["payload"])
        for index, block in enumerate(plan["blocks"])
    )
    Run.objects.bulk_create(
        (
            run
            for job, block in zip(jobs, plan["blocks"], strict=True)
            for run in make_runs(experiment, job, block, plan)
        ),
        batch_size=1000,
    )


class Cancelled(NamedTuple):
    """How many jobs a person has cancelled before they were sent, and after."""

    unsent: int
    sent: int

    def describe(self, cluster: str) -> str:
        """Return what becomes of them, as a sentence."""
        unsent = f"{self.unsent} job{'s' * (self.unsent != 1)} will not be sent"
        verb = "is" if self.sent == 1 else "are"
        if not self.sent:
            return f"{unsent}." if self.unsent else "No job was left to cancel."
        noun = "" if self.unsent else f" job{'s' * (self.sent != 1)}"
        ended = f"{self.sent}{noun} {verb} ended at the next visit to {cluster}."
        return f"{unsent}, {ended}" if self.unsent else ended


def cancel(experiment: Experiment, by: User) -> Cancelled:
    """Cancel planned jobs at once and live ones at the next visit; return how many.

    That visit need not wait (`visit_times.is_urgent`). Nothing is sent any more, not even by a
    visit that has begun to.
    """
    return _end(experiment, by, "cancelled") or Cancelled(0, 0)


def stop(experiment: Experiment, analysis: int, by: User) -> bool:
    """Stop at the verdict of interim analysis `analysis`, the latest, and cancel the other jobs.

    Return False if it is not the latest any more, if it decided nothing, or if no jobs are left.
    """
    comparison = compare_experiment(experiment)
    if not comparison.may_stop or comparison.stage.taken != analysis:
        return False
    what = f"stopped at interim analysis {analysis} of {experiment.looks}"
    claims = [pair.claim for pair in comparison.pairs]
    return _end(experiment, by, what, why="; ".join(claims), stopped_at_look=analysis) is not None


def _end(
    experiment: Experiment, by: User, what: str, *, why: str = "", **columns: Any
) -> Cancelled | None:
    """Mark the experiment as ended and end its jobs; return how many.

    None if it has been ended before or is a draft. One transaction: it cannot be done in part.
    """
    now = timezone.now()
    alive = Experiment.objects.filter(pk=experiment.pk, cancelled_at=None)
    to, reason = Job.State.CANCELLED, "cancelled"
    with transaction.atomic():
        ended: dict[str, Any] = {"cancelled_at": now, "paused_at": None, **columns}
        if not alive.exclude(launched_at=None).update(**ended):
            return None
        record_event(experiment, what, why=why, by=by)
        planned = experiment.jobs.filter(state=Job.State.PLANNED).select_for_update()
        pks = list(planned.order_by("pk").values_list("pk", flat=True))
        jobs, runs = Job.objects.filter(pk__in=pks), Run.objects.filter(job__in=pks)
        why = f"{what} by a person"
        count = move_all(jobs, Job.State.PLANNED, to, why=why, by=by, ended_at=now)
        move_all(runs, Run.State.PLANNED, Run.State.CANCELLED, why=reason, by=by, reason=reason)
        live = experiment.jobs.filter(state__in=Job.LIVE, cancel_requested_at=None)
        list(live.select_for_update().order_by("pk").values_list("pk"))  # in the order of visits
        return Cancelled(count, live.update(cancel_requested_at=Now()))


def end_runs(job: Job, to: str, *, reason: str, message: str = "") -> None:
    """End the runs of an ended job that have no outcome of their own."""
    runs = job.runs.filter(state__in=(Run.State.PLANNED, Run.State.RUNNING))
    for run in runs.only(*Run.MOVED):
        move(run, to, why=message or reason, reason=reason, message=message)


def retry(job: Job, by: User) -> None:
    """Plan the next attempt of a failed job, in a new directory. Raises NotDone."""
    require_use(by, job.cluster, "Not tried again.")
    if not find_further_attempts(job).can_retry:
        raise NotDone(CANNOT_RETRY)
    stage = read_stage(job.experiment)
    seen = not stage.alive and stage.states[Run.State.SUCCEEDED] > 0 and not _never_started(job)
    with transaction.atomic():
        why = f"attempt {job.attempt} failed: {job.reason}"
        if not plan_next_attempt(job, why=why, by=by, avoided_nodes=""):
            raise NotDone(CANNOT_RETRY)
        if seen:
            record_event(job.experiment, TRIED_AGAIN, job=job, by=by)


def plan_next_attempt(job: Job, *, why: str, by: User | None = None, avoided_nodes: str) -> bool:
    """Plan a failed job and its failed runs anew; return False if another was faster."""
    with transaction.atomic():
        # Locked: a row that was read an attempt ago would name the next one like the last.
        current = Job.objects.select_for_update().filter(pk=job.pk, attempt=job.attempt)
        if not current.exists():
            return False
        anew = {**JOB_ANEW, "attempt": job.attempt + 1, "avoided_nodes": avoided_nodes}
        if not move(job, Job.State.PLANNED, why=why, by=by, **anew):
            return False
        for run in job.runs.filter(state=Run.State.FAILED):
            move(run, Run.State.PLANNED, by=by, **RUN_ANEW)
        RunFile.objects.filter(run__job=job).delete()
        StoredRecord.objects.filter(run__job=job).delete()
        Segment.objects.filter(run__job=job).delete()  # a new attempt begins with the first step
    return True


def _never_started(job: Job) -> bool:
    """Return whether the job ended before its start: nobody can have chosen by its outcome."""
    return job.started_at is None and job.reason in NEVER_STARTED
