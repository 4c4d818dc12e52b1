"""What is done to experiments by the API, by the functions of the pages."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.db import transaction
from django.http import HttpResponse

from dashboard.api.experiment_routes import (
    REFUSED,
    ExperimentSchema,
    Key,
    find_experiment,
    read_experiment,
)
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.problems import Problem, ProblemSchema, refusals_as_conflicts, refuse
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import EXPERIMENTS
from experiments.access.permissions import why_not_change
from experiments.execution import experiment_pauses, lifecycle
from experiments.models import Experiment, UnsavedForm
from experiments.notify import enqueue_tick

router = Router(tags=["Experiments"])
CHANGED: dict[int, Any] = {
    200: ExperimentSchema,
    409: ProblemSchema,
    422: ProblemSchema,
    **REFUSED,
}
NOT_LAUNCHED = "It has not been launched: there is nothing to cancel. A draft is deleted."


@router.post(
    "experiments/{pk}/launch",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response=CHANGED,
)
@idempotent
def launch_experiment(request: ApiRequest, pk: Key) -> HttpResponse:
    """Freeze a draft and start it."""
    experiment = find_own(request, pk)
    with refusals_as_conflicts(lifecycle.NotLaunchable), transaction.atomic():
        lifecycle.launch(experiment, request.user)
        UnsavedForm.objects.filter(experiment=experiment).delete()
    enqueue_tick(experiment.cluster_id)
    return read_experiment(request, pk)


@router.post("experiments/{pk}/cancel", auth=EXPERIMENTS, response=CHANGED)
@idempotent
def cancel_experiment(request: ApiRequest, pk: Key) -> HttpResponse:
    """End what is alive; runs that have ended keep their numbers."""
    experiment = find_own(request, pk)
    if experiment.is_draft:
        raise Problem(HTTPStatus.CONFLICT, NOT_LAUNCHED)
    lifecycle.cancel(experiment, request.user)
    enqueue_tick(experiment.cluster_id)
    return read_experiment(request, pk)


@router.post("experiments/{pk}/pause", auth=EXPERIMENTS, response=CHANGED)
@idempotent
def pause_experiment(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have nothing new of an experiment sent; what has been sent goes on."""
    if not experiment_pauses.pause(find_own(request, pk), request.user):
        raise Problem(HTTPStatus.CONFLICT, "It was paused before, has ended, or is a draft.")
    return read_experiment(request, pk)


@router.post("experiments/{pk}/continue", auth=EXPERIMENTS, throttle=HEAVY, response=CHANGED)
@idempotent
def continue_experiment(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have the jobs of a paused experiment sent again."""
    experiment = find_own(request, pk)
    if not experiment_pauses.resume(experiment, request.user):
        raise Problem(HTTPStatus.CONFLICT, "It is not paused.")
    enqueue_tick(experiment.cluster_id)
    return read_experiment(request, pk)


@router.delete(
    "experiments/{pk}", auth=EXPERIMENTS, response={204: None, 409: ProblemSchema, **REFUSED}
)
def delete_draft(request: ApiRequest, pk: Key) -> HttpResponse:
    """Delete a draft; what has been launched stays."""
    experiment = find_own(request, pk)
    if not (experiment.is_draft and lifecycle.discard(experiment)):
        raise Problem(HTTPStatus.CONFLICT, "It has been launched, or it is an import: it stays.")
    return HttpResponse(status=HTTPStatus.NO_CONTENT)


def find_own(request: ApiRequest, pk: int) -> Experiment:
    """Return an experiment that one may change. Raises Http404 or Problem 403."""
    experiment = find_experiment(request, pk)
    refuse(why_not_change(request.user, experiment))
    return experiment
