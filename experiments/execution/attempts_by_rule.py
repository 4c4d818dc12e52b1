"""Further attempts that Tare plans by itself where a machine, or a rule of the site, ended a job.

The rule was fixed before there were results, and acts in the transaction that ends the job: before
anybody, or a planned analysis, could see what the job has left. So it stamps nothing.
"""

from __future__ import annotations

import re
from datetime import timedelta

from django.utils import timezone

from experiments.execution.lifecycle import plan_next_attempt
from experiments.execution.moves import move, record_event
from experiments.execution.repairs import find_node, list_missing_runs, plan_second_job
from experiments.execution.unbegun_jobs import LOST
from experiments.models import Event, Job, Run
from experiments.models.states import NOT_STARTED
from runners.ends import find_end
from runners.records import Record

MOST_BY_RULE = 2
"""As many further attempts of a block are planned by rule; about more a person decides."""
TRIED_BY_RULE = "tried again by rule"
NOT_TRIED = "not tried again by rule"
FILES_MAY_BE_LATE = timedelta(seconds=90)
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
        and timezone.now() - job.gone_at < FILES_MAY_BE_LATE
    )


def plan_by_rule(ended: Job) -> None:
    """Plan what the rule allows of a job that has failed in this transaction.

    Another attempt of the whole job if none of its runs came to an end of its own; else a second
    job for the runs that never began. `ended` itself is not changed: the caller may be rolled back.
    """
    if ended.state != Job.State.FAILED or not _is_by_rule(ended.reason):
        return
    job = Job.objects.select_related("experiment", "cluster").defer("script").get(pk=ended.pk)
    if job.cancel_requested_at or job.experiment.cancelled_at:
        return
    cause = f"{job.reason} ({job.message.partition('. Its ')[0]})"
    runs = list(job.runs.order_by("position"))
    missing = list(list_missing_runs(job).order_by("position"))
    if _count_by_rule(job) >= MOST_BY_RULE:
        why = f"{cause}: its block has been, {MOST_BY_RULE} times"
        record_event(job.experiment, NOT_TRIED, job=job, why=why)
    elif all(_is_untouched(run) for run in runs):
        record_event(job.experiment, TRIED_BY_RULE, job=job, why=cause)
        why = f"by rule, attempt {job.attempt} ended by {cause}"
        plan_next_attempt(job, why=why, avoided_nodes=_list_nodes_to_avoid(job))
    elif missing:
        second = plan_second_job(job, missing, node=find_node(job), why=f" by rule, after {cause}")
        record_event(job.experiment, TRIED_BY_RULE, job=second, why=cause)
    else:
        why = f"{cause}: another run of it has an outcome, and all others have begun"
        record_event(job.experiment, NOT_TRIED, job=job, why=why)


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


def _count_by_rule(job: Job) -> int:
    """Return how often the rule has planned something for the block of a job."""
    return Event.objects.filter(
        experiment=job.experiment_id, job__block=job.block, what=TRIED_BY_RULE
    ).count()
