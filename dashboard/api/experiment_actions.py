"""What is done to experiments by the API, by the functions of the pages."""

from __future__ import annotations

from http import HTTPStatus

from django.db import transaction
from django.http import HttpResponse
from ninja import Router

from dashboard.api.experiment_routes import (
    REFUSED,
    ExperimentSchema,
    Key,
    find_experiment,
    read_experiment,
)
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.problems import Problem, ProblemSchema, refuse
from dashboard.api.requests import ApiRequest
from dashboard.api.tokens import EXPERIMENTS
from experiments.access.permissions import why_not_change
from experiments.execution import lifecycle
from experiments.models import UnsavedForm
from experiments.notify import enqueue_tick

router = Router(tags=["Experiments"])


@router.post(
    "experiments/{pk}/launch",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={200: ExperimentSchema, 409: ProblemSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
def launch_experiment(request: ApiRequest, pk: Key) -> HttpResponse:
    """Freeze a draft and start it."""
    experiment = find_experiment(request, pk)
    refuse(why_not_change(request.user, experiment))
    try:
        lifecycle.launch(experiment, request.user)
    except lifecycle.NotLaunchable as refusal:
        raise Problem(HTTPStatus.CONFLICT, str(refusal)) from refusal
    UnsavedForm.objects.filter(experiment=experiment).delete()
    transaction.on_commit(lambda: enqueue_tick(experiment.cluster_id))
    return read_experiment(request, pk)
