"""Presets by the API: published experiments, and definitions of one's own, as drafts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from ninja import Field, Path, Query, Schema

from dashboard.api.experiment_routes import (
    REFUSED,
    ExperimentSchema,
    Key,
    describe_experiments,
    find_experiment,
)
from dashboard.api.file_contents import FileContent, make_uploads
from dashboard.api.form_bodies import (
    INVALID,
    StrictBody,
    require_offered_groups,
    require_valid,
)
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.list_parts import MOST, USUAL, send_list, send_row
from dashboard.api.problems import FieldProblem, Problem, ProblemSchema, refuse
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import EXPERIMENTS, READ
from dashboard.api.visibility_changes import VisibilityChange, choose_visibility
from dashboard.presets.own_preset_forms import OwnPresetForm, save_preset
from dashboard.presets.preset_forms import PresetForm
from dashboard.presets.script_fields import CODE_FILE
from dashboard.presets.script_fields import NAMES as SCRIPT_NAMES
from experiments.access import audit
from experiments.access.permissions import why_not_add, why_not_change
from experiments.code_copies.code_requests import put_code_of_draft
from experiments.models import Experiment, OwnPreset
from experiments.presets import LAPTOP, PRESETS, Preset
from experiments.presets.experiment_copies import OF_OTHERS
from experiments.presets.own_presets import CannotBeUsed, describe_definition, make_draft
from experiments.presets.program_checks import describe_missing_programs

router = Router(tags=["Presets"])
NO_SCRIPT = "This preset starts no script of others."
PresetKey = Annotated[
    str, Path(max_length=100, pattern="^[-a-z0-9_]+$", description="The key of a preset.")
]
RowKey = Annotated[int, Field(ge=1, lt=2**63)]


class PresetItemSchema(Schema):
    """A published experiment, from which drafts can be made."""

    key: str
    title: str
    source: str
    question: str
    sizes: list[str]


class PresetList(Schema):
    """All presets of this site."""

    items: list[PresetItemSchema]


class PresetEnvironment(Schema):
    """An environment in which a preset could run, or why not."""

    id: int
    name: str
    why_not: str


class PresetSchema(PresetItemSchema):
    """A preset on one cluster: what it could run in there."""

    then: str
    now: str
    needs: list[str]
    script: str = Field(description="The script of others that it starts; empty: none.")
    cluster: int | None
    environments: list[PresetEnvironment]


class DraftSchema(Schema):
    """A draft that was made, and what is missing in it or forbids its launch."""

    experiment: ExperimentSchema
    warnings: list[str]


class PresetUse(StrictBody):
    """Where a preset shall run, how large, and in what."""

    cluster: RowKey = Field(description="The number of a cluster.")
    environments: list[RowKey] = Field(min_length=1, max_length=1000)
    baseline: RowKey = Field(description="One of the environments.")
    size: str = LAPTOP
    folder: str = Field("", description="Of the data set, where a size reads one.")
    script_folder: str = Field(
        "",
        description="Where the preset’s script lies: a path in every environment, or one within "
        "its code.",
    )
    code_repository: str = Field("", description="From where the cluster fetches its code.")
    code_commit: str = Field("", description="All 40 digits.")
    code_archive: str = Field("", description="The sha256 of an archive that was sent before.")
    code_file: FileContent | None = Field(
        None, description="An archive (tar, tar.gz, tar.xz or zip) in base64."
    )


class OwnPresetSchema(Schema):
    """A definition that somebody has saved under a name."""

    id: int
    name: str
    owner: str
    visibility: str
    created_at: datetime
    page: str


class OwnPresetList(Schema):
    """A part of the list of own presets."""

    items: list[OwnPresetSchema]
    next: str | None


class OwnPresetChange(VisibilityChange):
    """What is to be another; what is not sent stays."""

    name: str | None = None


def _list_facts(preset: Preset) -> dict[str, Any]:
    facts = {name: getattr(preset, name) for name in ("key", "title", "source", "question")}
    return facts | {"sizes": list(preset.sizes)}


def _find_preset(key: str) -> Preset:
    if key not in PRESETS:
        raise Http404
    return PRESETS[key]


@router.get("presets", auth=READ, response={200: PresetList, 401: ProblemSchema})
def list_presets(request: ApiRequest) -> HttpResponse:
    """List the published experiments from which drafts can be made."""
    items = [PresetItemSchema(**_list_facts(preset)) for preset in PRESETS.values()]
    return send_row(request, PresetList(items=items).model_dump(mode="json"))


@router.get("presets/{key}", auth=READ, response={200: PresetSchema, **REFUSED})
def describe_preset(
    request: ApiRequest,
    key: PresetKey,
    cluster: Annotated[int | None, Query(ge=1, lt=2**63, description="Where it runs.")] = None,
) -> HttpResponse:
    """Return a preset, with the environments of a cluster in which it could run."""
    refuse(why_not_add(request.user, Experiment))
    preset = _find_preset(key)
    form = PresetForm(preset=preset, user=request.user, cluster=cluster)
    if cluster and (form.chosen_cluster is None or form.chosen_cluster.pk != cluster):
        raise Http404
    described = PresetSchema(
        **_list_facts(preset),
        then=preset.then,
        now=preset.now,
        needs=list(preset.needs),
        script=preset.script,
        cluster=form.chosen_cluster.pk if form.chosen_cluster else None,
        environments=[
            PresetEnvironment(id=row.environment.pk, name=row.environment.name, why_not=row.why_not)
            for row in form.candidates
        ],
    )
    return send_row(request, described.model_dump(mode="json"))


def _send_draft(request: ApiRequest, draft: Experiment, warnings: Sequence[str]) -> HttpResponse:
    rows = [find_experiment(request, draft.pk)]
    (described,) = describe_experiments(rows, request.user)
    content = DraftSchema(experiment=described, warnings=list(warnings))
    return JsonResponse(content.model_dump(mode="json"), status=HTTPStatus.CREATED)


@router.post(
    "presets/{key}/use",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={201: DraftSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
def use_preset(request: ApiRequest, key: PresetKey, choices: PresetUse) -> HttpResponse:
    """Make a draft of a preset."""
    refuse(why_not_add(request.user, Experiment))
    preset = _find_preset(key)
    sent = choices.model_dump(exclude={CODE_FILE})
    files = make_uploads({}, {CODE_FILE: choices.code_file})
    form = PresetForm(_Data(sent), files, preset=preset, user=request.user)
    asked = [name for name in SCRIPT_NAMES if getattr(choices, name)]
    if asked and not preset.script:
        problems = [FieldProblem(name, NO_SCRIPT) for name in asked]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)
    require_valid(form)
    draft = form.save()
    if draft is None:
        require_valid(form)
    assert draft is not None
    chosen = form.cleaned_data
    warnings = form.refusals(
        preset.sizes[chosen["size"]], list(chosen["environments"]), chosen["baseline"]
    )
    _, why_not = put_code_of_draft(draft, request.user)
    missing = describe_missing_programs(draft.workloads.all(), list(chosen["environments"]))
    return _send_draft(request, draft, [*filter(None, [why_not]), *missing, *warnings])


class _Data(dict[str, Any]):
    """What was sent, as a form of a page reads it: its single values are texts."""

    def __init__(self, sent: Mapping[str, Any]) -> None:
        super().__init__(
            {name: value if isinstance(value, list) else str(value) for name, value in sent.items()}
        )


def _select_own(request: ApiRequest) -> Any:
    return OwnPreset.objects.visible_to(request.user).select_related("owner")


def _describe_own(rows: Sequence[OwnPreset]) -> Iterable[OwnPresetSchema]:
    for row in rows:
        yield OwnPresetSchema(
            id=row.pk,
            name=row.name,
            owner=str(row.owner),
            visibility=row.visibility,
            created_at=row.created_at,
            page=row.get_absolute_url(),
        )


@router.get(
    "own-presets", auth=READ, response={200: OwnPresetList, 401: ProblemSchema, 422: ProblemSchema}
)
def list_own_presets(
    request: ApiRequest,
    limit: Annotated[int, Query(ge=1, le=MOST)] = USUAL,
    cursor: str = "",
    fields: str = "",
) -> HttpResponse:
    """List one's own presets and those of others that one may view, the newest first."""
    rows = _select_own(request)
    return send_list(
        request, rows, OwnPresetSchema, _describe_own, limit=limit, cursor=cursor, fields=fields
    )


@router.post(
    "experiments/{pk}/preset",
    auth=EXPERIMENTS,
    response={201: OwnPresetSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
def save_own_preset(request: ApiRequest, pk: Key, change: OwnPresetChange) -> HttpResponse:
    """Save the definition of an experiment as a preset."""
    refuse(why_not_add(request.user, OwnPreset))
    experiment = find_experiment(request, pk)
    if experiment.imported_at or experiment.is_from_bundle:
        raise PermissionDenied(OF_OTHERS)
    preset = OwnPreset(
        owner=request.user,
        name=experiment.question[:100],
        definition=describe_definition(experiment),
    )
    return _save_own(request, preset, change, HTTPStatus.CREATED)


@router.patch(
    "own-presets/{pk}",
    auth=EXPERIMENTS,
    response={200: OwnPresetSchema, 422: ProblemSchema, **REFUSED},
)
def change_own_preset(request: ApiRequest, pk: Key, change: OwnPresetChange) -> HttpResponse:
    """Rename a preset, or change who may view it."""
    return _save_own(request, _find_changeable(request, pk), change, HTTPStatus.OK)


def _find_changeable(request: ApiRequest, pk: int) -> OwnPreset:
    row: OwnPreset = get_object_or_404(_select_own(request), pk=pk)
    refuse(why_not_change(request.user, row))
    return row


def _save_own(
    request: ApiRequest, row: OwnPreset, change: OwnPresetChange, status: HTTPStatus
) -> HttpResponse:
    name = row.name if change.name is None else change.name
    data = {"name": name, **choose_visibility(row, change)}
    form = OwnPresetForm(data, instance=row, user=request.user)
    require_offered_groups(form, change.groups)
    require_valid(form)
    if not save_preset(form, request.user):
        require_valid(form)
    (described,) = _describe_own([row])
    return JsonResponse(described.model_dump(mode="json"), status=status)


@router.delete("own-presets/{pk}", auth=EXPERIMENTS, response={204: None, **REFUSED})
def delete_own_preset(request: ApiRequest, pk: Key) -> HttpResponse:
    """Delete a preset; experiments that were made of it stay."""
    audit.delete(request.user, _find_changeable(request, pk))
    return HttpResponse(status=HTTPStatus.NO_CONTENT)


@router.post(
    "own-presets/{pk}/use",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={201: DraftSchema, 409: ProblemSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
def use_own_preset(request: ApiRequest, pk: Key) -> HttpResponse:
    """Make a draft of a preset of one's own, or of others that one may view."""
    refuse(why_not_add(request.user, Experiment))
    preset = get_object_or_404(_select_own(request), pk=pk)
    try:
        draft, warnings = make_draft(preset, request.user)
    except CannotBeUsed as reason:
        raise Problem(HTTPStatus.CONFLICT, f"No draft was made. {reason}") from reason
    return _send_draft(request, draft, warnings)
