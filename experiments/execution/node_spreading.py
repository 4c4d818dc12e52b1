"""Spreading the blocks of a configuration over nodes: each goes where no earlier one ran.

On which node a block runs is known when its first run has begun. So the next block of the same
configuration is sent after that, with the nodes of all others excluded in its script.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from django.db.models import Exists, OuterRef, Q, QuerySet

from experiments.design import Scale
from experiments.execution.moves import move
from experiments.models import Job, Run
from experiments.natural_order import sort_naturally


def exclude_waiting_for_node(planned: QuerySet[Job]) -> QuerySet[Job]:
    """Leave out planned jobs whose configuration has a block before them without a node yet.

    Of each configuration the first planned job alone is looked at: to ask of each of thousands
    whether one stands before it would take minutes.
    """
    firsts = (
        Job.objects.filter(experiment__spreads_nodes=True, state=Job.State.PLANNED, node="")
        .order_by("experiment_id", "workload_id", "scale", "block", "pk")
        .distinct("experiment_id", "workload_id", "scale")
    )
    named = Run.objects.filter(job=OuterRef("pk")).exclude(node="")
    underway = Job.objects.filter(
        ~Exists(named),
        experiment=OuterRef("experiment"),
        workload=OuterRef("workload"),
        scale=OuterRef("scale"),
        node="",
        state__in=Job.LIVE,
    ).exclude(block=OuterRef("block"))
    return planned.exclude(
        Q(experiment__spreads_nodes=True, node="")
        & (~Q(pk__in=firsts.values("pk")) | Exists(underway))
    )


def decide_excluded_nodes(jobs: Sequence[Job]) -> None:
    """Set the nodes that jobs are not to run on, of those that are to be spread; nothing stored."""
    for job in jobs:
        partition = job.experiment.partition
        if not (job.experiment.spreads_nodes and partition) or job.node:
            continue
        if job.excluded_nodes == []:  # the scheduler has refused it without some nodes
            continue
        counts = count_blocks_by_node(job)
        needed = Scale.parse(job.scale).nodes
        chosen = choose_excluded_nodes(counts, partition.nodes, needed)
        if job.excluded_nodes:  # without the names that the scheduler does not know
            chosen = [name for name in chosen if name in job.excluded_nodes]
        job.excluded_nodes = chosen or None


def count_blocks_by_node(job: Job) -> dict[str, int]:
    """Return on how many other blocks of the job's configuration each node ran."""
    rows = (
        Run.objects.filter(experiment=job.experiment_id, workload=job.workload_id, scale=job.scale)
        .exclude(node="")
        .exclude(job__block=job.block)
        .order_by()
        .values_list("node", "job__block")
        .distinct()
    )
    return dict(Counter(node for node, _ in rows))


def choose_excluded_nodes(counts: Mapping[str, int], nodes: int, needed: int) -> list[str]:
    """Return the nodes to exclude: all that ran a block, or those that ran more than the least.

    `counts` has the number of blocks of each node that ran one; `nodes` there are in all, of which
    a job needs so many.
    """
    if nodes - len(counts) >= needed:
        return sort_naturally(counts)
    least = min(counts.values(), default=0)
    used_more = sort_naturally(node for node, count in counts.items() if count > least)
    return used_more if nodes - len(used_more) >= needed else []


def allow_excluded_nodes(job: Job, refusal: str, unknown: Collection[str] = ()) -> None:
    """Plan a job once more, for any node: the scheduler has refused it without those excluded.

    If some names are unknown to the scheduler it is kept off the others all the same.
    """
    excluded = job.excluded_nodes or []
    kept = [name for name in excluded if name not in unknown] if unknown else []
    why = f"no other nodes than {', '.join(excluded)}: {refusal}"
    if unknown:
        gone = [name for name in excluded if name in unknown]
        why = f"unknown to the scheduler, and excluded no more: {', '.join(gone)} ({refusal})"
        if kept:
            why += f"; still excluded: {', '.join(kept)}"
    move(job, Job.State.PLANNED, why=why, excluded_nodes=kept)
