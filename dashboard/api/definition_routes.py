"""Experiments as files by the API: checked, stored as drafts, launched, and written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.datastructures import MultiValueDict
from ninja import Query, Schema

from dashboard.api.document import describe_content
from dashboard.api.experiment_routes import (
    REFUSED,
    ExperimentSchema,
    Key,
    find_experiment,
    read_experiment,
)
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.problems import (
    FieldProblem,
    FieldProblemSchema,
    Problem,
    ProblemSchema,
    refusals_as_conflicts,
    refuse,
)
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.strict_requests import refuse_size
from dashboard.api.tokens import EXPERIMENTS, READ
from dashboard.planning.definition_drafts import (
    Applied,
    Names,
    check_text,
    launch_text,
    save_text,
)
from dashboard.planning.study_drafts import AppliedStudy
from experiments.access.permissions import why_not_add, why_not_change
from experiments.definitions.definition_problems import BadDefinition
from experiments.definitions.definition_problems import Problem as FileProblem
from experiments.definitions.definition_reading import read_mapping
from experiments.definitions.described_experiments import CannotBeWritten, write_file
from experiments.definitions.study_reading import is_study
from experiments.definitions.yaml_tree import MOST_BYTES
from experiments.models import Experiment
from experiments.notify import enqueue_tick

router = Router(tags=["Files"])
YAML, JSON, PARTS = "application/yaml", "application/json", "multipart/form-data"
KINDS = {YAML, "application/x-yaml", "text/yaml", "text/x-yaml", JSON}
WRONG_KIND = (
    f"Send the file as {YAML} or {JSON} or, with a table of names, as {PARTS} with the parts "
    "“definition” and “map”."
)
INVALID = "The file is not valid."
STUDY_FILE = "/docs/api/#studies"
NAMES_TABLE = "/docs/experiment-files/#names"
"""The type of the problem by which programs know that a file is to be sent as a study."""
SEND_AS_STUDY = "This is the file of a study: send it to /api/v1/studies."
FROZEN = "A launched experiment is frozen."
ANY: dict[str, Any] = {"schema": {}}
"""What is wrong in a file is said by line and column, not refused as a whole."""
PART = {"type": "string", "format": "binary"}
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            YAML: ANY,
            JSON: ANY,
            PARTS: {
                "schema": {
                    "type": "object",
                    "required": ["definition"],
                    "properties": {"definition": PART, "map": PART},
                }
            },
        },
    }
}
MakeWorkloads = Annotated[
    bool, Query(description="Make the workloads that the file describes and that are not here.")
]


class PlanSchema(Schema):
    """The most that an experiment will use."""

    runs: int
    blocks: int
    jobs: int
    longest_job_seconds: int
    gpu_hours_at_most: float
    node_hours_at_most: float


class MissingSchema(Schema):
    """A name of the file that is not here, and what may stand for it in the table of names."""

    section: str
    name: str
    choices: list[str]


class CheckSchema(Schema):
    """What stands against a file."""

    valid: bool
    problems: list[FieldProblemSchema]
    missing: list[MissingSchema]
    plan: PlanSchema | None
    warnings: list[str]


@dataclass(frozen=True)
class SentFile:
    """A file as it was sent, and the names of it that stand for others here."""

    content: bytes
    names: Names


def read_sent_file(request: ApiRequest) -> SentFile:
    """Return the file of a request. Raises Problem where it is none."""
    kind = request.content_type
    if kind == PARTS:
        refuse_size(request)
        texts, files = _read_form(request)
        parts = {name: files.get(name) for name in ("definition", "map")}
        sent = parts["definition"]
        if sent is None or set(files) | set(texts) > parts.keys():
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, WRONG_KIND)
        return SentFile(sent.read(MOST_BYTES + 1), _read_names(parts["map"]))
    if kind not in KINDS:
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, WRONG_KIND)
    return SentFile(request.body, {})


def _read_form(request: ApiRequest) -> tuple[QueryDict, MultiValueDict[str, Any]]:
    """Return the texts and the files of a form; Django reads those of POST alone."""
    if request.method == "POST":
        return request.POST, request.FILES
    return request.parse_file_upload(request.META, request)


def _read_names(sent: Any) -> Names:
    if sent is None:
        return {}
    names = read_mapping(sent.read(MOST_BYTES + 1))
    if isinstance(names, tuple):
        problems = [
            FieldProblem(f"map.{one.field}".rstrip("."), one.message, one.line, one.column)
            for one in names
        ]
        detail = "The table of names is not valid."
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, problems, type=NAMES_TABLE)
    return names


def list_problems(problems: Iterable[FileProblem]) -> list[FieldProblem]:
    """Return the problems of a file as the API sends them."""
    return [FieldProblem(row.field, row.message, row.line, row.column) for row in problems]


def refuse_study(content: bytes) -> None:
    """Raise Problem where the file is that of a study, which has an address of its own."""
    if is_study(content):
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, SEND_AS_STUDY, type=STUDY_FILE)


def refuse_file(error: BadDefinition) -> Problem:
    """Return the problem of a file that is not valid, with all places."""
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, list_problems(error.problems))


@router.post(
    "experiments/check",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={200: CheckSchema, 415: ProblemSchema, 422: ProblemSchema},
    openapi_extra=BODY,
)
def check_definition(request: ApiRequest, make_workloads: MakeWorkloads = False) -> CheckSchema:
    """Say what stands against an experiment file; nothing is stored."""
    refuse(why_not_add(request.user, Experiment))
    sent = read_sent_file(request)
    refuse_study(sent.content)
    applied = check_text(sent.content, request.user, sent.names, make_missing=make_workloads)
    return describe_check(applied)


def describe_check(applied: Applied | AppliedStudy) -> CheckSchema:
    """Return what stands against a file, as the API sends it."""
    forecast, names = applied.forecast, PlanSchema.model_fields
    return CheckSchema(
        valid=applied.is_valid,
        problems=[vars(row) for row in list_problems(applied.problems)],  # type: ignore[misc]
        missing=[
            MissingSchema(section=row.section, name=row.name, choices=list(row.choices))
            for row in applied.missing
        ],
        plan=PlanSchema(**{name: getattr(forecast, name) for name in names}) if forecast else None,
        warnings=applied.warnings if applied.is_valid else [],
    )


@router.post(
    "experiments",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={201: ExperimentSchema, 403: ProblemSchema, 415: ProblemSchema, 422: ProblemSchema},
    openapi_extra=BODY,
)
@idempotent
def make_experiment(
    request: ApiRequest,
    launch: Annotated[bool, Query(description="Launch it in the same step.")] = False,
    make_workloads: MakeWorkloads = False,
) -> HttpResponse:
    """Make an experiment of a file: a draft, or launched. What is wrong keeps all of it away."""
    refuse(why_not_add(request.user, Experiment))
    sent = read_sent_file(request)
    refuse_study(sent.content)
    store = launch_text if launch else save_text
    try:
        made = store(sent.content, request.user, sent.names, make_missing=make_workloads)
    except BadDefinition as error:
        raise refuse_file(error) from error
    if launch:
        cluster = made.cluster_id
        enqueue_tick(cluster)
    answer = read_experiment(request, made.pk)
    answer.status_code = HTTPStatus.CREATED
    answer["Location"] = reverse("api:read_experiment", args=[made.pk])
    return answer


@router.put(
    "experiments/{pk}/definition",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={
        200: ExperimentSchema,
        409: ProblemSchema,
        415: ProblemSchema,
        422: ProblemSchema,
        **REFUSED,
    },
    openapi_extra=BODY,
)
def replace_definition(
    request: ApiRequest, pk: Key, make_workloads: MakeWorkloads = False
) -> HttpResponse:
    """Put a file in the place of a draft."""
    draft = find_experiment(request, pk)
    refuse(why_not_change(request.user, draft))
    if not draft.is_draft:
        raise Problem(HTTPStatus.CONFLICT, FROZEN)
    sent = read_sent_file(request)
    refuse_study(sent.content)
    try:
        save_text(sent.content, request.user, sent.names, draft=draft, make_missing=make_workloads)
    except BadDefinition as error:
        raise refuse_file(error) from error
    return read_experiment(request, pk)


def _send_file(request: ApiRequest, pk: int, ending: str, kind: str) -> HttpResponse:
    rows = Experiment.objects.visible_to(request.user)
    row = get_object_or_404(rows.select_related("cluster", "partition"), pk=pk)
    with refusals_as_conflicts(CannotBeWritten):
        text = write_file(row, request.user, ending)
    return HttpResponse(text, content_type=f"{kind}; charset=utf-8")


@router.get(
    "experiments/{pk}/definition.yaml",
    auth=READ,
    response={200: None, 409: ProblemSchema, **REFUSED},
    openapi_extra=describe_content(YAML, "The file.", is_text=False),
)
def read_definition_yaml(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return an experiment as a YAML file, with its comments where it came from one."""
    return _send_file(request, pk, "yaml", YAML)


@router.get(
    "experiments/{pk}/definition.json",
    auth=READ,
    response={200: None, 409: ProblemSchema, **REFUSED},
    openapi_extra=describe_content(JSON, "The file.", is_text=False),
)
def read_definition_json(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return an experiment as a JSON file."""
    return _send_file(request, pk, "json", JSON)
