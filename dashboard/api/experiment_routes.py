"""Experiments by the API: what the pages show and do, by the same functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Path, Query, Router, Schema

from dashboard.api.limits import HEAVY
from dashboard.api.list_parts import MOST, USUAL, send_list
from dashboard.api.problems import Problem, ProblemSchema, refuse
from dashboard.api.requests import ApiRequest
from dashboard.api.tokens import EXPERIMENTS, READ
from experiments.access.permissions import why_not_change
from experiments.execution import lifecycle
from experiments.models import Experiment
from experiments.notify import enqueue_tick

router = Router(tags=["Experiments"])
Key = Annotated[int, Path(ge=1, lt=2**63, description="The number in the address of its page.")]


class ExperimentSchema(Schema):
    """An experiment, without its plan."""

    id: int
    question: str
    is_draft: bool
    cluster: str
    owner: str
    created_at: datetime
    launched_at: datetime | None
    page: str


class ExperimentList(Schema):
    """A part of the list of experiments."""

    items: list[ExperimentSchema]
    next: str | None


def describe_experiments(rows: Sequence[Experiment]) -> Iterable[ExperimentSchema]:
    """Return what the API says of experiments."""
    for row in rows:
        yield ExperimentSchema(
            id=row.pk,
            question=row.question,
            is_draft=row.is_draft,
            cluster=str(row.cluster),
            owner=str(row.owner),
            created_at=row.created_at,
            launched_at=row.launched_at,
            page=row.get_absolute_url(),
        )


@router.get("experiments", auth=READ, response={200: ExperimentList, 422: ProblemSchema})
def list_experiments(
    request: ApiRequest,
    limit: Annotated[int, Query(ge=1, le=MOST)] = USUAL,
    cursor: str = "",
    fields: str = "",
) -> HttpResponse:
    """List the experiments that one may view."""
    rows = Experiment.objects.visible_to(request.user).without_plan()
    rows = rows.select_related("cluster", "owner")
    return send_list(
        request,
        rows,
        ExperimentSchema,
        describe_experiments,
        limit=limit,
        cursor=cursor,
        fields=fields,
    )


@router.get("experiments/{pk}", auth=READ, response={200: ExperimentSchema, 404: ProblemSchema})
def read_experiment(request: ApiRequest, pk: Key) -> ExperimentSchema:
    """Return one experiment."""
    return next(iter(describe_experiments([_find(request, pk)])))


@router.post(
    "experiments/{pk}/launch",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={200: ExperimentSchema, 403: ProblemSchema, 404: ProblemSchema, 409: ProblemSchema},
)
def launch_experiment(request: ApiRequest, pk: Key) -> ExperimentSchema:
    """Freeze a draft and start it."""
    experiment = _find(request, pk)
    refuse(why_not_change(request.user, experiment))
    try:
        lifecycle.launch(experiment, request.user)
    except lifecycle.NotLaunchable as refusal:
        raise Problem(HTTPStatus.CONFLICT, str(refusal)) from refusal
    enqueue_tick(experiment.cluster_id)
    return read_experiment(request, pk)


def _find(request: ApiRequest, pk: int) -> Experiment:
    rows = Experiment.objects.visible_to(request.user).without_plan()
    return get_object_or_404(rows.select_related("cluster", "owner"), pk=pk)
