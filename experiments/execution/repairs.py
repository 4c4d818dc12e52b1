"""Repairs of blocks: a new job runs the runs that never began, and none that have begun.

Of those that have begun only what the plan's rules have rejected, by `rejected_again`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from experiments.access import audit
from experiments.comparisons import TRIED_AGAIN
from experiments.execution.further_attempts import NotDone, find_further_attempts, require_use
from experiments.execution.lifecycle import JOB_ANEW, RUN_ANEW, end_runs
from experiments.execution.moves import Move, move, move_each, record_event
from experiments.execution.sending_rights import REPAIRED
from experiments.models import Event, Experiment, Job, Pause, Run, User
from experiments.models.states import NOT_STARTED
from experiments.planning.forecasts import compute_gpu_seconds
from experiments.planning.interim import read_stage

ANY_NODE = "any node allowed"
LEFT_RUNNING = "not taken back from its node"


def list_missing_runs(job: Job) -> QuerySet[Run]:
    """Return the runs of a job that ended before they began."""
    return job.runs.filter(state=Run.State.FAILED, reason=NOT_STARTED)


def find_nodes(jobs: Iterable[Job]) -> dict[int, str]:
    """Return the nodes on which the runs of jobs ran, by the key of each job that has one."""
    named = Run.objects.filter(job__in=[job.pk for job in jobs]).exclude(node="")
    first_of_each = named.order_by("job", "position").distinct("job")
    return dict(first_of_each.values_list("job", "node"))


def find_node(job: Job) -> str:
    """Return the node on which the runs of a job ran; empty if none of them has named it."""
    return find_nodes([job]).get(job.pk, "")


def repair(job: Job, by: User, *, same_node: bool) -> Job:
    """Plan a job for what is missing of a block, in the order of the first. Raises NotDone.

    Runs that have begun stay with the first job, whatever they gave. A verdict that could be read
    before is stamped, as when a job is tried again.
    """
    with transaction.atomic():
        first = audit.get_stored(Job.objects.select_for_update().defer("script"), pk=job.pk)
        require_use(by, first.cluster, "Nothing is run.")
        if not find_further_attempts(first).missing:
            raise NotDone(
                "Nothing of this job can be run: every run of it has begun, or a planned analysis "
                "has judged without it."
            )
        stage = read_stage(first.experiment)
        node = find_node(first) if same_node else ""
        runs = list(list_missing_runs(first).order_by("position"))
        second = plan_second_job(SecondJob(first, runs, node), by)
        if not stage.alive and stage.states[Run.State.SUCCEEDED]:
            record_event(first.experiment, TRIED_AGAIN, job=second, by=by)
    return second


@dataclass(frozen=True)
class SecondJob:
    """A job to be planned for runs of `first` that have no outcome."""

    first: Job
    runs: Sequence[Run]
    node: str
    """Where it must run; empty: on any node."""
    cause: str = "never began"
    """Why the runs have no outcome, followed by "in" and the first job."""
    why: str = ""
    """What is added to the words of its event."""


def plan_second_job(plan: SecondJob, by: User | None = None) -> Job:
    """Plan one job, as `plan_second_jobs` does."""
    (second,) = plan_second_jobs([plan], by)
    return second


def plan_second_jobs(plans: Sequence[SecondJob], by: User | None = None) -> list[Job]:
    """Plan jobs, and return them in the order of `plans`.

    This takes as many statements for a hundred jobs as for one, if experiments, workloads and
    environments are there already.
    """
    if not plans:
        return []
    with transaction.atomic():
        seconds = Job.objects.bulk_create(_make_second_job(plan) for plan in plans)
        Event.objects.bulk_create(
            Event(
                experiment_id=second.experiment_id,
                job=second,
                what=REPAIRED,
                why=_describe_second_job(plan),
                actor=by,
            )
            for plan, second in zip(plans, seconds, strict=True)
        )
        moves = [
            Move(run, f"in {second}", {"job": second, **RUN_ANEW}, by)
            for plan, second in zip(plans, seconds, strict=True)
            for run in plan.runs
        ]
        move_each(moves, Run.State.FAILED, Run.State.PLANNED)
    return seconds


def _make_second_job(plan: SecondJob) -> Job:
    first = plan.first
    return Job(
        experiment=first.experiment,
        cluster_id=first.cluster_id,
        workload=first.workload,
        scale=first.scale,
        repeat=first.repeat,
        block=first.block,
        payload_hash=first.payload_hash,
        gpu_seconds=compute_gpu_seconds(
            first.workload,
            scale=first.scale,
            runs=len(plan.runs),
            cooldown_seconds=first.experiment.cooldown_seconds,
        ),
        repairs=first,
        node=plan.node,
    )


def _describe_second_job(plan: SecondJob) -> str:
    names = ", ".join(str(run.environment) for run in plan.runs)
    where = f"on {plan.node}" if plan.node else "on any node"
    return f"{names}: {plan.cause} in {plan.first} and will be run {where}, in this order{plan.why}"


def can_allow_any_node(job: Job) -> bool:
    """Return whether a job waits that may not run on every node: those left may be gone or drained.

    It must run on one node, or is kept off those of other blocks.
    """
    return (
        bool(job.node or job.excluded_nodes)
        and job.state in (Job.State.PLANNED, Job.State.QUEUED)
        and job.cancel_requested_at is None
        and job.experiment.cancelled_at is None
    )


def allow_any_node(job: Job, by: User) -> None:
    """Let a job that waits for its node run anywhere. Raises NotDone.

    What the scheduler has taken already is taken back first, by the next visit, and sent again.
    """
    require_use(by, job.cluster)
    with transaction.atomic():
        rows = Job.objects.select_for_update(of=("self",)).defer("script")
        row = audit.get_stored(rows, pk=job.pk)
        if not can_allow_any_node(row):
            raise NotDone("Not changed: it does not wait for a node any more.")
        columns = {} if row.state == Job.State.PLANNED else {"cancel_requested_at": Now()}
        Job.objects.filter(pk=row.pk).update(node="", excluded_nodes=[], **columns)
        Pause.objects.holding(row.experiment).update(retry_at=Now())
        excluded = ", ".join(row.excluded_nodes or [])
        why = (
            f"instead of {row.node} alone" if row.node else f"those of other blocks too: {excluded}"
        )
        record_event(row.experiment, ANY_NODE, job=row, why=why, by=by)


def is_taken_back(job: Job) -> bool:
    """Return whether a job was only cancelled to be sent again, for any node.

    A person can cancel an experiment and no job of it alone: what else cancels one is
    `allow_any_node`.
    """
    return job.cancel_requested_at is not None and job.experiment.cancelled_at is None


def release_started(jobs: Sequence[Job]) -> None:
    """Let jobs run on that were to be taken back, and have started on their node meanwhile.

    Whoever allowed any node has not wanted them to end.
    """
    if not jobs:
        return
    with transaction.atomic():
        # Before the jobs, as whoever cancels an experiment does it.
        experiments = Experiment.objects.select_for_update(no_key=True).order_by("pk")
        alive = experiments.filter(pk__in={job.experiment_id for job in jobs}, cancelled_at=None)
        taken_back = Job.objects.select_for_update().filter(
            pk__in=[job.pk for job in jobs],
            experiment__in=list(alive.values_list("pk", flat=True)),
            cancel_requested_at__isnull=False,
        )
        keys = set(taken_back.order_by("pk").values_list("pk", flat=True))
        released = [job for job in jobs if job.pk in keys]
        Job.objects.filter(pk__in=keys).update(cancel_requested_at=None, cancel_sent_at=None)
        for job in released:
            record_event(job.experiment, LEFT_RUNNING, job=job, why="it started before that")
    for job in released:
        job.cancel_requested_at = job.cancel_sent_at = None


def plan_on_any_node(job: Job) -> None:
    """Plan the next attempt of a job that was taken back before any of its runs had begun."""
    why = "taken back from the queue before it began, to run on any node"
    now = timezone.now()
    with transaction.atomic():
        if not move(job, Job.State.FAILED, why=why, reason="cancelled", message=why, ended_at=now):
            return
        end_runs(job, Run.State.FAILED, reason=NOT_STARTED, message=why)
        anew = {**JOB_ANEW, "attempt": job.attempt + 1, "excluded_nodes": []}
        move(job, Job.State.PLANNED, why=why, **anew)
        for run in list_missing_runs(job):
            move(run, Run.State.PLANNED, why=why, **RUN_ANEW)
