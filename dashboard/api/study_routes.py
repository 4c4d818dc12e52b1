"""Studies by the API: lists, their files, how far their experiments are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from ninja import Query, Schema

from dashboard.api.definition_routes import (
    BODY,
    JSON,
    YAML,
    CheckSchema,
    MakeWorkloads,
    describe_check,
    read_sent_file,
    refuse_file,
)
from dashboard.api.document import describe_content
from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.list_parts import MOST, USUAL, send_list, send_row
from dashboard.api.problems import ProblemSchema, refusals_as_conflicts, refuse
from dashboard.api.requests import ApiRequest
from dashboard.api.result_routes import judge_experiment
from dashboard.api.routers import Router
from dashboard.api.tokens import EXPERIMENTS, READ
from dashboard.planning.study_drafts import (
    check_study_text,
    launch_study_text,
    list_clusters,
    save_study_text,
)
from dashboard.studies.study_page import ProgressRow, read_study_progress
from experiments.access.permissions import why_not_add
from experiments.definitions.definition_problems import BadDefinition
from experiments.definitions.described_experiments import CannotBeWritten
from experiments.models import Experiment, Study, StudyExperiment, User
from experiments.notify import enqueue_tick
from experiments.statistics.exit_words import choose_exit_word, choose_gravest_word
from experiments.studies.described_studies import write_study_file

router = Router(tags=["Studies"])


class StudySchema(Schema):
    """A study: several experiments that answer one question."""

    id: int
    name: str
    question: str
    notes: str
    owner: str
    visibility: str
    experiments: list[int]
    """Those that one may view, in their order."""
    hidden_experiments: int
    created_at: datetime
    page: str


class StudyList(Schema):
    """A part of the list of studies."""

    items: list[StudySchema]
    next: str | None


class MemberProgress(Schema):
    """How far one experiment of a study is."""

    id: int
    question: str
    cluster: str
    state: str
    is_draft: bool
    is_alive: bool
    runs: dict[str, int]
    seconds_left: float | None
    verdicts: dict[str, int]
    exit_word: str
    sentence: str


class StudyProgressSchema(Schema):
    """How far the experiments of a study are, and the gravest word of them all."""

    is_alive: bool
    runs: dict[str, int]
    seconds_left: float | None
    exit_word: str
    experiments: list[MemberProgress]
    hidden_experiments: int


def describe_studies(rows: Sequence[Study], user: User) -> Iterable[StudySchema]:
    """Return what the API says of studies to this person; two queries for all of them."""
    members = StudyExperiment.objects.filter(study__in=[row.pk for row in rows])
    pairs = list(members.order_by("place", "pk").values_list("study", "experiment"))
    visible = Experiment.objects.visible_to(user).filter(pk__in={key for _, key in pairs})
    known = set(visible.values_list("pk", flat=True)) if pairs else set()
    for row in rows:
        keys = [key for study, key in pairs if study == row.pk]
        shown = [key for key in keys if key in known]
        yield StudySchema(
            id=row.pk,
            name=row.name,
            question=row.question,
            notes=row.notes,
            owner=str(row.owner),
            visibility=row.visibility,
            experiments=shown,
            hidden_experiments=len(keys) - len(shown),
            created_at=row.created_at,
            page=row.get_absolute_url(),
        )


def find_study(request: ApiRequest, pk: int) -> Study:
    """Return the study. Raises Http404 where one may not view it."""
    return get_object_or_404(Study.objects.visible_to(request.user).select_related("owner"), pk=pk)


@router.get("studies", auth=READ, response={200: StudyList, 401: ProblemSchema, 422: ProblemSchema})
def list_studies(
    request: ApiRequest,
    q: Annotated[str, Query(description="A part of the name.")] = "",
    limit: Annotated[int, Query(ge=1, le=MOST)] = USUAL,
    cursor: str = "",
    fields: str = "",
) -> HttpResponse:
    """List the studies that one may view, the newest first."""
    rows = Study.objects.visible_to(request.user).select_related("owner")
    return send_list(
        request,
        rows.filter(name__icontains=q) if q else rows,
        StudySchema,
        lambda shown: describe_studies(shown, request.user),
        limit=limit,
        cursor=cursor,
        fields=fields,
    )


@router.get("studies/{pk}", auth=READ, response={200: StudySchema, **REFUSED})
def read_study(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return one study."""
    row = next(iter(describe_studies([find_study(request, pk)], request.user)))
    return send_row(request, row.model_dump(mode="json"))


@router.get("studies/{pk}/progress", auth=READ, response={200: StudyProgressSchema, **REFUSED})
def read_study_state(request: ApiRequest, pk: Key) -> StudyProgressSchema:
    """Return how far the experiments of a study are."""
    progress = read_study_progress(find_study(request, pk), request.user)
    rows = [_describe_member(row) for row in progress.rows]
    return StudyProgressSchema(
        is_alive=progress.is_alive,
        runs=dict(sorted(progress.tally.states.items())),
        seconds_left=progress.seconds_left,
        exit_word=choose_gravest_word({row.exit_word for row in rows}),
        experiments=rows,
        hidden_experiments=progress.hidden,
    )


def _describe_member(row: ProgressRow) -> MemberProgress:
    experiment, tally = row.experiment, row.progress.tally
    is_alive = not experiment.is_draft and tally.alive
    verdicts, sentence = dict(row.verdicts), ""
    word = choose_exit_word(verdicts, is_alive=is_alive or experiment.is_draft)
    if not is_alive and not verdicts:  # none is kept: as for one experiment, if it is quick
        verdicts, word, sentence = judge_experiment(experiment, is_alive=False)
    return MemberProgress(
        id=experiment.pk,
        question=experiment.question,
        cluster=str(experiment.cluster),
        state=row.progress.status.text,
        is_draft=experiment.is_draft,
        is_alive=is_alive,
        runs=dict(sorted(tally.states.items())),
        seconds_left=row.seconds_left,
        verdicts=verdicts,
        exit_word=word,
        sentence=sentence,
    )


def _send_study_file(request: ApiRequest, pk: int, ending: str, kind: str) -> HttpResponse:
    with refusals_as_conflicts(CannotBeWritten):
        text = write_study_file(find_study(request, pk), request.user, ending)
    return HttpResponse(text, content_type=f"{kind}; charset=utf-8")


@router.get(
    "studies/{pk}/definition.yaml",
    auth=READ,
    response={200: None, 409: ProblemSchema, **REFUSED},
    openapi_extra=describe_content(YAML, "The file.", is_text=False),
)
def read_study_yaml(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return a study as a YAML file, with its comments where it came from one."""
    return _send_study_file(request, pk, "yaml", YAML)


@router.get(
    "studies/{pk}/definition.json",
    auth=READ,
    response={200: None, 409: ProblemSchema, **REFUSED},
    openapi_extra=describe_content(JSON, "The file.", is_text=False),
)
def read_study_json(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return a study as a JSON file."""
    return _send_study_file(request, pk, "json", JSON)


@router.post(
    "studies/check",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={200: CheckSchema, 415: ProblemSchema, 422: ProblemSchema},
    openapi_extra=BODY,
)
def check_study(request: ApiRequest, make_workloads: MakeWorkloads = False) -> CheckSchema:
    """Say what stands against a study's file, and what all its experiments use at most."""
    refuse(why_not_add(request.user, Study))
    sent = read_sent_file(request)
    applied = check_study_text(sent.content, request.user, sent.names, make_missing=make_workloads)
    return describe_check(applied)


@router.post(
    "studies",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={201: StudySchema, 403: ProblemSchema, 415: ProblemSchema, 422: ProblemSchema},
    openapi_extra=BODY,
)
@idempotent
def make_study(
    request: ApiRequest,
    launch: Annotated[bool, Query(description="Launch its experiments in the same step.")] = False,
    make_workloads: MakeWorkloads = False,
) -> HttpResponse:
    """Make a study and its experiments of a file. What is wrong with one keeps all of it away."""
    refuse(why_not_add(request.user, Study))
    sent = read_sent_file(request)
    store = launch_study_text if launch else save_study_text
    try:
        made = store(sent.content, request.user, sent.names, make_missing=make_workloads)
    except BadDefinition as error:
        raise refuse_file(error) from error
    for cluster in list_clusters(made) if launch else ():
        enqueue_tick(cluster)
    answer = read_study(request, made.pk)
    answer.status_code = HTTPStatus.CREATED
    answer["Location"] = reverse("api:read_study", args=[made.pk])
    return answer
