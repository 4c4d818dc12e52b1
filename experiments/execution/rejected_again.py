"""Rejected runs that are planned again by a rule of the plan.

The rule saw what a node did and no number, was fixed before the launch, and acts in the transaction
that ends the job: nobody can choose by it which results to replace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from django.db.models import Count, Prefetch

from experiments.comparisons.rejections import REJECTED, REJECTED_AGAIN
from experiments.execution.attempts_by_rule import NOT_TRIED
from experiments.execution.repairs import SecondJob, find_nodes, plan_second_jobs
from experiments.models import (
    Event,
    Job,
    NodeSamples,
    Run,
    RunFile,
    Segment,
    Series,
    StoredRecord,
)
from runners.node_rules import ATTEMPTS


def plan_rejected_again(ended: Sequence[Job]) -> None:
    """Plan a second job for what the plan's rules have rejected of jobs that came to their end.

    It runs on the node of the first one, within the same block: pairs are made within a node. Where
    all of the block was rejected there is nothing to pair with, and any node will do. A portion
    takes as many statements as one job.
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
    sizes = _count_runs_of_blocks(jobs)
    nodes = find_nodes(jobs)
    plans, refused = [], []
    for job in jobs:
        runs: list[Run] = job.rejected
        limit = runs[0].spec.get("reject", {}).get(ATTEMPTS, 0)
        block = job.experiment_id, job.block
        if counts[block] >= limit:
            why = f"rejected, and tried again {counts[block]} times, the most that the plan allows"
            refused.append(Event(experiment_id=job.experiment_id, job=job, what=NOT_TRIED, why=why))
            continue
        counts[block] += 1
        is_alone = sizes[block] == len(runs)
        node = "" if is_alone else job.node or nodes.get(job.pk, "")
        why = f", time {counts[block]} of {limit}"
        plans.append(SecondJob(job, runs, node, "rejected by the plan’s rules", why))
    Event.objects.bulk_create(refused)
    _plan_again(plans)


def _plan_again(plans: Sequence[SecondJob]) -> None:
    """Plan these jobs. Events tell of the rejected attempts; their files stay where they are."""
    if not plans:
        return
    messages = {run.pk: run.message for plan in plans for run in plan.runs}
    seconds = plan_second_jobs(plans)
    Event.objects.bulk_create(
        Event(
            experiment_id=second.experiment_id,
            job=second,
            run=run,
            what=REJECTED_AGAIN,
            why=messages[run.pk],
        )
        for plan, second in zip(plans, seconds, strict=True)
        for run in plan.runs
    )
    for model in (RunFile, StoredRecord, NodeSamples, Series, Segment):
        model._default_manager.filter(run__in=list(messages)).delete()


def _count_runs_of_blocks(jobs: Iterable[Job]) -> dict[tuple[int, int], int]:
    """Return how many runs the blocks of these jobs have, by experiment and block."""
    runs = Run.objects.filter(
        experiment__in={job.experiment_id for job in jobs},
        job__block__in={job.block for job in jobs},
    )
    counted = runs.order_by().values("experiment", "job__block").annotate(count=Count("pk"))
    return {
        (experiment, block): count
        for experiment, block, count in counted.values_list("experiment", "job__block", "count")
    }


def _count_again(jobs: Iterable[Job]) -> Counter[tuple[int, int]]:
    """Return how often rejected runs were planned again, by experiment and block."""
    events = Event.objects.filter(
        experiment__in={job.experiment_id for job in jobs},
        job__block__in={job.block for job in jobs},
        what=REJECTED_AGAIN,
    )
    seconds = events.order_by().values_list("experiment", "job__block", "job").distinct()
    return Counter((experiment, block) for experiment, block, _ in seconds)
