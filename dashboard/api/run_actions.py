"""What is done to runs and to their jobs by the API: exclusions, attempts, repairs."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Field, Query

from dashboard.api.experiment_actions import CHANGED, find_own
from dashboard.api.experiment_routes import REFUSED, read_experiment
from dashboard.api.form_bodies import StrictBody
from dashboard.api.idempotency import idempotent
from dashboard.api.problems import FieldProblem, Problem, ProblemSchema, refusals_as_conflicts
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.run_items import RunDetails
from dashboard.api.run_routes import Uid, find_run, read_run
from dashboard.api.tokens import EXPERIMENTS
from experiments.execution import excluded_runs, lifecycle, repairs
from experiments.execution.further_attempts import NotDone
from experiments.execution.late_files import request_collection
from experiments.execution.removed_files import explain_removal
from experiments.models import Job
from experiments.notify import enqueue_tick

router = Router(tags=["Runs"])
RUN_CHANGED: dict[int, Any] = {
    200: RunDetails,
    409: ProblemSchema,
    422: ProblemSchema,
    **REFUSED,
}
NO_CAUSE = "Write the cause: stamps and papers print it."
NOT_EXCLUDED = "Not excluded: only a run that succeeded can be."
NOT_INCLUDED = "Not included: it is not excluded."
NOT_COLLECTED = "There is nothing to collect: all runs of this job have given their numbers."
AnyNode = Annotated[bool, Query(description="Let it run on another node than the block's.")]


class Cause(StrictBody):
    """Why a person decides about a run."""

    why: str = Field(min_length=1, max_length=1000, description="Stamps and papers print it.")


@router.post("runs/{uid}/exclude", auth=EXPERIMENTS, response=RUN_CHANGED)
@idempotent
def exclude_run(request: ApiRequest, uid: Uid, cause: Cause) -> HttpResponse:
    """Take a run out of the comparison; it stays, with its numbers."""
    return _decide(request, uid, cause, excluded_runs.exclude, NOT_EXCLUDED)


@router.post("runs/{uid}/include", auth=EXPERIMENTS, response=RUN_CHANGED)
@idempotent
def include_run(request: ApiRequest, uid: Uid, cause: Cause) -> HttpResponse:
    """Undo the exclusion of a run: the comparison counts it as before."""
    return _decide(request, uid, cause, excluded_runs.include_again, NOT_INCLUDED)


def _decide(
    request: ApiRequest, uid: str, cause: Cause, decide: Callable[..., bool], why_not: str
) -> HttpResponse:
    run = find_run(request, uid)
    find_own(request, run.experiment_id)
    why = " ".join(cause.why.split())
    if not why:
        problems = [FieldProblem("why", NO_CAUSE)]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, NO_CAUSE, problems)
    if not decide(run, request.user, why):
        raise Problem(HTTPStatus.CONFLICT, why_not)
    return read_run(request, uid)


@router.post("jobs/{uid}/retry", auth=EXPERIMENTS, response=CHANGED)
@idempotent
def retry_job(request: ApiRequest, uid: Uid) -> HttpResponse:
    """Plan the next attempt of a failed job, if none of its runs gave a number."""
    return _act(request, uid, lambda job: lifecycle.retry(job, request.user))


@router.post("jobs/{uid}/repair", auth=EXPERIMENTS, response=CHANGED)
@idempotent
def repair_job(request: ApiRequest, uid: Uid, any_node: AnyNode = False) -> HttpResponse:
    """Plan a job for the runs of a block that never began."""
    return _act(request, uid, lambda job: repairs.repair(job, request.user, same_node=not any_node))


@router.post("jobs/{uid}/any-node", auth=EXPERIMENTS, response=CHANGED)
@idempotent
def allow_any_node(request: ApiRequest, uid: Uid) -> HttpResponse:
    """Let the rest of a block run on any node, where the one it waits for is gone."""
    return _act(request, uid, lambda job: repairs.allow_any_node(job, request.user))


@router.post("jobs/{uid}/collect", auth=EXPERIMENTS, response=CHANGED)
@idempotent
def collect_job(request: ApiRequest, uid: Uid) -> HttpResponse:
    """Have the files of an ended job read once more."""

    def collect(job: Job) -> None:
        if not request_collection(job, request.user):
            raise NotDone(explain_removal(job) or NOT_COLLECTED)

    return _act(request, uid, collect)


def _act(request: ApiRequest, uid: str, act: Callable[[Job], Any]) -> HttpResponse:
    """Do something to a job whose experiment one may change; return that experiment."""
    job = get_object_or_404(Job, uid=uid)
    find_own(request, job.experiment_id)
    with refusals_as_conflicts(NotDone):
        act(job)
    enqueue_tick(job.cluster_id)
    return read_experiment(request, job.experiment_id)
