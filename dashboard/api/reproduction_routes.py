"""Reproductions by the API: what one would be, its images prepared, and its draft or launch."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from ninja import Field, Query, Schema

from dashboard.api.definition_routes import PlanSchema
from dashboard.api.experiment_routes import REFUSED, ExperimentSchema, Key, read_experiment
from dashboard.api.form_bodies import StrictBody
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.list_parts import send_row
from dashboard.api.problems import FieldProblem, Problem, ProblemSchema, refuse
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import EXPERIMENTS, READ
from experiments.access.permissions import why_not_add
from experiments.execution import lifecycle
from experiments.images.staging import NotDone
from experiments.models import Experiment
from experiments.notify import enqueue_tick
from experiments.reproductions.frozen_plans import UnreadablePlan, read_plan
from experiments.reproductions.places import NEW, Place, prepare
from experiments.reproductions.proposals import Proposal, propose
from experiments.reproductions.reproduction_choices import (
    NO_PARTITION,
    Selection,
    forecast_proposal,
    identify_differences,
    select_place,
)
from experiments.reproductions.reproduction_drafts import NotMade, make_draft_once

router = Router(tags=["Reproductions"])
CHANGED = (
    "Not done: what cannot be the same is not what “seen” stands for. Read the reproduction anew, "
    "and send its “seen” if you agree with its differences."
)
NOTHING_TO_PREPARE = "No image is to be fetched or staged."
NO_CLUSTER = "A reproduction runs on a cluster whose key you may use. There is none yet."
WRONG_CHOICE = "What was chosen is not there."
NO_SUCH_CLUSTER = "There is no such cluster whose key you may use."
RowKey = Annotated[int, Field(ge=1, lt=2**63)]
Environments = dict[str, RowKey | str]


class CandidateSchema(Schema):
    """An environment that may stand for one of the plan."""

    id: int
    name: str


class ReproducedEnvironment(Schema):
    """An environment of the plan, and what stands for it on the cluster."""

    key: str
    name: str
    is_baseline: bool
    image_digest: str
    state: str
    environment: int | None
    candidates: list[CandidateSchema]


class ReproductionSchema(Schema):
    """A reproduction as it would be launched now."""

    cluster: int
    partition: int | None
    clusters: list[CandidateSchema]
    partitions: list[CandidateSchema]
    may_launch: bool
    needs_preparation: bool
    seen: str
    differences: list[str]
    refusals: list[str]
    waits_for: list[str]
    environments: list[ReproducedEnvironment]
    plan: PlanSchema | None


class ReproductionPlace(StrictBody):
    """Where an experiment is done again; what is not sent is as at first on the page."""

    cluster: RowKey | None = Field(None, description="The number of a cluster.")
    partition: RowKey | None = Field(None, description="The number of a partition.")
    without_partition: bool = Field(False, description="Where the cluster runs such jobs.")
    environments: Environments = Field(
        {},
        description="The key of an environment of the plan: the number of the one that stands for "
        "it, or “new”.",
    )


class ReproductionRequest(ReproductionPlace):
    """What shall be made."""

    seen: str = Field(
        min_length=1, max_length=64, description="That of the reproduction as it was read."
    )
    launch: bool = Field(False, description="Launch it in the same step; else a draft is made.")


@dataclass(frozen=True)
class Asked:
    """A proposal, and what was chosen for it."""

    selection: Selection
    proposal: Proposal


def propose_for(request: ApiRequest, pk: int, place: ReproductionPlace) -> Asked:
    """Return what a reproduction would be. Raises Http404, or Problem in words."""
    refuse(why_not_add(request.user, Experiment))
    rows = Experiment.objects.visible_to(request.user)
    source = get_object_or_404(rows.select_related("cluster", "partition", "baseline"), pk=pk)
    try:
        plan = read_plan(source.plan)
    except UnreadablePlan as reason:
        raise Problem(HTTPStatus.CONFLICT, f"It cannot be reproduced. {reason}") from reason
    selection = select_place(
        plan,
        source,
        request.user,
        cluster=str(place.cluster or ""),
        partition=NO_PARTITION if place.without_partition else str(place.partition or ""),
        choices={key: str(choice) for key, choice in place.environments.items()},
    )
    if place.cluster is None and selection.cluster is None:
        raise Problem(HTTPStatus.CONFLICT, NO_CLUSTER)
    proposal = None
    if selection.cluster:
        proposal = propose(
            source, request.user, selection.cluster, selection.partition, selection.choices
        )
    problems = _list_wrong_choices(place, selection, proposal)
    if problems or proposal is None:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, WRONG_CHOICE, problems)
    return Asked(selection, proposal)


def _list_wrong_choices(
    place: ReproductionPlace, selection: Selection, proposal: Proposal | None
) -> list[FieldProblem]:
    """Return the choices that there are not, in whose place a page would take others.

    A page shows what it took; a program would not look.
    """
    cluster, partition = selection.cluster, selection.partition
    if cluster is None or place.cluster not in (None, cluster.pk):
        return [FieldProblem("cluster", NO_SUCH_CLUSTER)]
    problems = []
    if place.without_partition and not (selection.may_go_without and place.partition is None):
        problems.append(FieldProblem("without_partition", f"{cluster} runs jobs in partitions."))
    elif place.partition and (partition is None or place.partition != partition.pk):
        problems.append(FieldProblem("partition", f"{cluster} has no such partition in use."))
    places = {row.spec.key: row for row in proposal.places} if proposal else {}
    for key, choice in place.environments.items():
        field = f"environments.{key[:50]}"
        if key not in places:
            known = ", ".join(places)
            problems.append(FieldProblem(field, f"The plan has no such key; it has {known}."))
        elif str(choice) not in {NEW, *(str(row.pk) for row in places[key].candidates)}:
            problems.append(FieldProblem(field, "It is none of its candidates, nor “new”."))
    return problems


def _describe(asked: Asked) -> ReproductionSchema:
    selection, proposal = asked.selection, asked.proposal
    forecast = forecast_proposal(proposal)
    names = PlanSchema.model_fields
    return ReproductionSchema(
        cluster=proposal.cluster.pk,
        partition=proposal.partition.pk if proposal.partition else None,
        clusters=[CandidateSchema(id=row.pk, name=row.name) for row in selection.clusters],
        partitions=[CandidateSchema(id=row.pk, name=row.name) for row in selection.partitions],
        may_launch=proposal.may_launch,
        needs_preparation=bool(proposal.to_prepare),
        seen=identify_differences(proposal),
        differences=proposal.differences,
        refusals=proposal.refusals,
        waits_for=proposal.waits,
        environments=[_describe_place(row, proposal.plan.baseline) for row in proposal.places],
        plan=PlanSchema(**{name: getattr(forecast, name) for name in names}) if forecast else None,
    )


def _describe_place(place: Place, baseline: str) -> ReproducedEnvironment:
    return ReproducedEnvironment(
        key=place.spec.key,
        name=place.spec.label,
        is_baseline=place.spec.key == baseline,
        image_digest=place.spec.image_digest,
        state=_name_state(place),
        environment=place.chosen.pk if place.chosen else None,
        candidates=[CandidateSchema(id=row.pk, name=row.name) for row in place.candidates],
    )


def _name_state(place: Place) -> str:
    states = {
        "missing": place.problem,
        "under way": place.waits,
        "to be fetched": place.to_fetch,
        "to be staged": place.to_stage[0],
        "is made with the draft": place.is_new,
    }
    return next((name for name, holds in states.items() if holds), "ready")


@router.get(
    "experiments/{pk}/reproduction",
    auth=READ,
    throttle=HEAVY,
    response={200: ReproductionSchema, 409: ProblemSchema, 422: ProblemSchema, **REFUSED},
)
def propose_reproduction(
    request: ApiRequest,
    pk: Key,
    cluster: Annotated[int | None, Query(ge=1, lt=2**63, description="Where it runs.")] = None,
    partition: Annotated[int | None, Query(ge=1, lt=2**63, description="In which one.")] = None,
    without_partition: Annotated[bool, Query(description="Where the cluster has none.")] = False,
    environment: Annotated[
        list[str] | None,
        Query(description="KEY=NUMBER or KEY=new: what stands for an environment of the plan."),
    ] = None,
) -> HttpResponse:
    """Return what a reproduction would be: what differs, what is missing, and what it takes."""
    pairs = [text.partition("=")[::2] for text in environment or ()]
    place = ReproductionPlace(
        cluster=cluster,
        partition=partition,
        without_partition=without_partition,
        environments=dict(pairs),
    )
    return send_row(request, _describe(propose_for(request, pk, place)).model_dump(mode="json"))


@router.post(
    "experiments/{pk}/reproduction/prepare",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={200: ReproductionSchema, 409: ProblemSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
def prepare_reproduction(request: ApiRequest, pk: Key, place: ReproductionPlace) -> HttpResponse:
    """Have the images fetched and staged that a reproduction lacks; all of them, or none."""
    proposal = propose_for(request, pk, place).proposal
    if not proposal.to_prepare:
        raise Problem(HTTPStatus.CONFLICT, NOTHING_TO_PREPARE)
    with transaction.atomic():
        for row in proposal.to_prepare:
            try:
                prepare(row, proposal.cluster, request.user)
            except NotDone as reason:
                raise Problem(HTTPStatus.CONFLICT, f"{row.spec.label}: {reason}") from reason
    return send_row(request, _describe(propose_for(request, pk, place)).model_dump(mode="json"))


@router.post(
    "experiments/{pk}/reproduce",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={
        200: ExperimentSchema,
        201: ExperimentSchema,
        409: ProblemSchema,
        422: ProblemSchema,
        **REFUSED,
    },
)
@idempotent
def reproduce_experiment(request: ApiRequest, pk: Key, order: ReproductionRequest) -> HttpResponse:
    """Make the draft of a reproduction or launch it; 200 where the same was made just now."""
    proposal = propose_for(request, pk, order).proposal
    if order.seen != identify_differences(proposal):
        raise Problem(HTTPStatus.CONFLICT, CHANGED)
    with transaction.atomic():
        made, is_new = _make(proposal, request, launches=order.launch)
    answer = read_experiment(request, made.pk)
    if is_new:
        answer.status_code = HTTPStatus.CREATED
        answer["Location"] = reverse("api:read_experiment", args=[made.pk])
    return answer


def _make(proposal: Proposal, request: ApiRequest, *, launches: bool) -> tuple[Experiment, bool]:
    try:
        draft, is_new = make_draft_once(proposal, request.user)
    except NotMade as refusal:
        detail = f"No draft was made. {refusal}"
        raise Problem(HTTPStatus.CONFLICT, detail, _list_reasons(refusal.reasons)) from refusal
    if is_new and launches:
        try:
            lifecycle.launch(draft, request.user)
        except lifecycle.NotLaunchable as refusal:
            detail = f"Nothing was made, as it cannot be launched. {refusal}"
            raise Problem(HTTPStatus.CONFLICT, detail) from refusal
        enqueue_tick(draft.cluster_id)
    return draft, is_new


def _list_reasons(reasons: list[str]) -> list[FieldProblem]:
    return [FieldProblem("", reason) for reason in reasons]
