"""Further attempts that Tare plans by itself where a machine, or a rule of the site, ended a job.

The rule was fixed before there were results, and acts in the transaction that ends the job: before
anybody, or a planned analysis, could see what the job has left. So it stamps nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta

from django.db.models import Prefetch
from django.utils import timezone

from experiments.execution.lifecycle import JOB_ANEW, RUN_ANEW
from experiments.execution.moves import Move, move, move_each
from experiments.execution.repairs import SecondJob, find_nodes, plan_second_jobs
from experiments.execution.unbegun_jobs import LOST
from experiments.models import Event, Job, Run, RunFile, Segment, StoredRecord
from experiments.models.states import NOT_STARTED
from runners.ends import find_end
from runners.records import Record

MOST_BY_RULE = 2
"""As many further attempts of a block are planned by rule; about more a person decides."""
TRIED_BY_RULE = "tried again by rule"
NOT_TRIED = "not tried again by rule"
LATE_RESULTS = timedelta(seconds=90)
"""A shared file system shows files up to a minute late: what has ended well is not run twice."""


def must_wait(job: Job, record: Record, reason: str) -> bool:
    """Return whether a job that the rule would try again may still show files of its runs.

    One whose directory Tare has claimed has none, and never will.
    """
    return (
        reason != LOST
        and (record.exit_code is None or bool(record.missing))
        and _is_by_rule(reason)
        and job.cancel_requested_at is None
        and job.gone_at is not None
        and timezone.now() - job.gone_at < LATE_RESULTS
    )


def plan_by_rule(ended: Sequence[Job]) -> None:
    """Plan what the rule allows of the jobs that have failed in this transaction.

    Another attempt of a whole job if none of its runs came to an end of its own; else a second job
    for the runs that never began. `ended` itself is not changed: the caller may be rolled back.
    A node that goes down may end a whole portion: that takes as many statements as one job.
    """
    keys = [job.pk for job in ended if job.state == Job.State.FAILED and _is_by_rule(job.reason)]
    if not keys:
        return
    jobs = (
        Job.objects.filter(pk__in=keys, cancel_requested_at=None, experiment__cancelled_at=None)
        .select_related("experiment", "workload")
        .defer("script", "experiment__plan")
        .prefetch_related(
            Prefetch("runs", Run.objects.select_related("environment").order_by("position"))
        )
        .order_by("pk")
    )
    counts = _count_by_rule(jobs)
    nodes = find_nodes(jobs)
    again: list[Job] = []
    seconds: list[tuple[SecondJob, str]] = []
    refused: list[Event] = []
    for job in jobs:
        cause = f"{job.reason} ({job.message.partition('. Its ')[0]})"
        runs = list(job.runs.all())
        missing = [run for run in runs if _never_began(run)]
        block = job.experiment_id, job.block
        if counts[block] >= MOST_BY_RULE:
            why = f"{cause}: its block has been, {MOST_BY_RULE} times"
            refused.append(_make_event(job, NOT_TRIED, why))
        elif all(_is_untouched(run) for run in runs):
            counts[block] += 1
            again.append(job)
        elif missing:
            counts[block] += 1
            why = f" by rule, after {cause}"
            plan = SecondJob(job, missing, nodes.get(job.pk, ""), why=why)
            seconds.append((plan, cause))
        else:
            why = f"{cause}: another run of it has an outcome, and all others have begun"
            refused.append(_make_event(job, NOT_TRIED, why))
    planned = plan_second_jobs([plan for plan, _ in seconds])
    Event.objects.bulk_create(
        [
            *refused,
            *(
                _make_event(second, TRIED_BY_RULE, cause)
                for second, (_, cause) in zip(planned, seconds, strict=True)
            ),
        ]
    )
    _plan_again(again)


def _make_event(job: Job, what: str, why: str) -> Event:
    return Event(experiment_id=job.experiment_id, job=job, what=what, why=why)


def _plan_again(jobs: Sequence[Job]) -> None:
    """Plan the next attempts of whole jobs, with all their runs."""
    causes = {job: f"{job.reason} ({job.message.partition('. Its ')[0]})" for job in jobs}
    Event.objects.bulk_create(
        _make_event(job, TRIED_BY_RULE, cause) for job, cause in causes.items()
    )
    runs = [run for job in jobs for run in job.runs.all()]
    moves = []
    for job, cause in causes.items():
        nodes = _list_nodes_to_avoid(job)
        anew = {**JOB_ANEW, "attempt": job.attempt + 1, "avoided_nodes": nodes}
        moves.append(Move(job, f"by rule, attempt {job.attempt} ended by {cause}", anew))
    move_each(moves, Job.State.FAILED, Job.State.PLANNED)
    move_each([Move(run, columns=RUN_ANEW) for run in runs], Run.State.FAILED, Run.State.PLANNED)
    if runs:
        RunFile.objects.filter(run__in=runs).delete()
        StoredRecord.objects.filter(run__in=runs).delete()
        # Of the attempt that has just ended, without a checkpoint; those of jobs before stay.
        Segment.objects.filter(run__in=runs, job__in=list(causes)).delete()


def _never_began(run: Run) -> bool:
    return run.state == Run.State.FAILED and run.reason == NOT_STARTED


def _is_by_rule(reason: str) -> bool:
    end = find_end(reason)
    return end is not None and end.by_rule


def _is_untouched(run: Run) -> bool:
    """Return whether only what ended the job has ended the run.

    One of which the journal says that it ended well is not run again, though its files are missing.
    """
    return (
        run.state == Run.State.FAILED
        and run.exit_code != 0
        and (run.reason == NOT_STARTED or _is_by_rule(run.reason))
    )


def _list_nodes_to_avoid(job: Job) -> str:
    """Return the nodes on which attempts found no GPU. Idle as they are, they get each next job."""
    nodes = [node for node in job.avoided_nodes.split(",") if node]
    named = re.match(r"([\w.-]{1,100}): ", job.message) if job.reason == "no GPU" else None
    if named and named[1] not in nodes:
        nodes.append(named[1])
    return ",".join(nodes[-MOST_BY_RULE:])


def allow_avoided_nodes(job: Job, refusal: str) -> None:
    """Plan a job once more that the scheduler refused because there are no other nodes."""
    why = f"no other nodes than {job.avoided_nodes}: {refusal}"
    move(job, Job.State.PLANNED, why=why, avoided_nodes="")


def _count_by_rule(jobs: Iterable[Job]) -> Counter[tuple[int, int]]:
    """Return how often the rule has planned something, by the experiments and blocks of jobs."""
    by_rule = Event.objects.filter(
        experiment__in={job.experiment_id for job in jobs},
        job__block__in={job.block for job in jobs},
        what=TRIED_BY_RULE,
    )
    return Counter(by_rule.values_list("experiment", "job__block"))
