"""Rejected runs that are planned again by a rule of the plan.

The rule saw what a node did and no number, was fixed before the launch, and acts in the transaction
that ends the job: nobody can choose by it which results to replace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from django.db.models import Prefetch

from experiments.comparisons.rejections import REJECTED, REJECTED_AGAIN
from experiments.execution.attempts_by_rule import NOT_TRIED
from experiments.execution.moves import record_event
from experiments.execution.repairs import find_node, plan_second_job
from experiments.models import Event, Job, NodeSamples, Run, RunFile, Series
from runners.node_rules import AGAIN


def plan_rejected_again(ended: Sequence[Job]) -> None:
    """Plan a second job for what the plan's rules have rejected of jobs that came to their end.

    It runs on the node of the first one, within the same block: pairs are made within a node. Where
    all of the block was rejected there is nothing to pair with, and any node will do.
    """
    keys = [
        job.pk for job in ended if job.state == Job.State.DONE and job.experiment.rejected_again
    ]
    if not keys:
        return
    rejected = Run.objects.filter(state=Run.State.FAILED, reason=REJECTED).order_by("position")
    jobs = (
        Job.objects.filter(
            pk__in=keys,
            cancel_requested_at=None,
            experiment__cancelled_at=None,
            runs__in=rejected,
        )
        .select_related("experiment", "workload")
        .defer("script", "experiment__plan")
        .prefetch_related(Prefetch("runs", rejected.select_related("environment"), "rejected"))
        .order_by("pk")
        .distinct()
    )
    counts = _count_again(jobs)
    for job in jobs:
        runs: list[Run] = job.rejected
        limit = runs[0].spec.get("reject", {}).get(AGAIN, 0)
        block = job.experiment_id, job.block
        if counts[block] >= limit:
            why = f"rejected, and tried again {counts[block]} times, the most that the plan allows"
            record_event(job.experiment, NOT_TRIED, job=job, why=why)
            continue
        counts[block] += 1
        others = Run.objects.filter(experiment=job.experiment_id, job__block=job.block)
        is_alone = not others.exclude(pk__in=[run.pk for run in runs]).exists()
        messages = {run.pk: run.message for run in runs}
        second = plan_second_job(
            job,
            runs,
            node="" if is_alone else job.node or find_node(job),
            cause="rejected by the plan’s rules",
            why=f", time {counts[block]} of {limit}",
        )
        # Events tell of the rejected attempt, and its files stay in the first job's directory.
        for run in runs:
            record_event(job.experiment, REJECTED_AGAIN, job=second, run=run, why=messages[run.pk])
        for model in (RunFile, NodeSamples, Series):
            model._default_manager.filter(run__in=runs).delete()


def _count_again(jobs: Iterable[Job]) -> Counter[tuple[int, int]]:
    """Return how often rejected runs were planned again, by experiment and block."""
    events = Event.objects.filter(
        experiment__in={job.experiment_id for job in jobs},
        job__block__in={job.block for job in jobs},
        what=REJECTED_AGAIN,
    )
    seconds = events.order_by().values_list("experiment", "job__block", "job").distinct()
    return Counter((experiment, block) for experiment, block, _ in seconds)
