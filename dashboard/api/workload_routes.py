"""Workloads made, changed and deleted by the API, with the forms of their pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse
from ninja import Field

from dashboard.access.rights import changeable_row
from dashboard.api.catalogue_routes import send_described
from dashboard.api.catalogue_schemas import WorkloadSchema
from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.file_contents import FileContent, FileName, make_uploads
from dashboard.api.filled_forms import fill_in, refuse_unknown_names
from dashboard.api.form_bodies import INVALID, RowKey, list_form_problems
from dashboard.api.idempotency import idempotent
from dashboard.api.problems import (
    FieldProblem,
    Problem,
    ProblemSchema,
    refusals_as_conflicts,
    refuse,
    refuse_now,
)
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import CATALOGUE
from dashboard.api.visibility_changes import VisibilityChange, change_row
from dashboard.planning.command_forms import CommandForm, name_metric_fields
from dashboard.planning.sent_files import list_known_files
from dashboard.planning.workload_forms import (
    NotEditable,
    WorkloadForm,
    choose_form,
    store_workload,
)
from experiments.access import audit
from experiments.access.permissions import why_not_add
from experiments.models import Workload
from experiments.planning import workloads
from experiments.planning.closed_sums import find_closed_files
from experiments.presets.commands import SENT
from runners.workloads import WORKLOADS
from runners.workloads.parameters import join_arguments

router = Router(tags=["Catalogue"])
CHANGED: dict[int, Any] = {200: WorkloadSchema, 409: ProblemSchema, 422: ProblemSchema, **REFUSED}
FILES, METRICS, CODE_FILE = "files", "metrics", "code_file"
NOT_HERE = "{} is no file that was sent to this site before: send it under “files”."


class WorkloadChange(VisibilityChange):
    """What is to be another of a workload; what is not sent stays."""

    name: str | None = None
    parameters: dict[str, Any] | None = Field(
        None, description="Those of its kind. One that is not sent stays; null is its default."
    )
    files: dict[FileName, FileContent] | None = Field(
        None,
        description="Of a command: files to send with each job. Those that are there already are "
        "named in `parameters.files` by their sha256, and stay while that is not sent.",
    )
    code_file: FileContent | None = Field(
        None,
        description="Of a command: an archive (tar, tar.gz, tar.xz or zip) in base64, in place of "
        "`parameters.code_archive`.",
    )
    data_set: RowKey | None = Field(None, description="One of `data-sets`; null: none.")
    data_proof: str | None = None
    time_limit_seconds: int | None = Field(None, strict=True)


class NewWorkload(WorkloadChange):
    """A workload: a kind, and what differs from its defaults."""

    name: str
    kind: str = Field(description="One of those that *Catalogue → Workload types* lists.")


@router.post(
    "workloads",
    auth=CATALOGUE,
    response={201: WorkloadSchema, 403: ProblemSchema, 409: ProblemSchema, 422: ProblemSchema},
)
@idempotent
def make_workload(request: ApiRequest, new: NewWorkload) -> HttpResponse:
    """Make a workload."""
    refuse(why_not_add(request.user, Workload))
    if new.kind not in WORKLOADS:
        message = f"There is no kind “{new.kind[:50]}”. There are: {', '.join(WORKLOADS)}."
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, [FieldProblem("kind", message)])
    sent = new.model_dump(mode="json", exclude_unset=True, exclude={"kind"})
    fresh = Workload(owner=request.user, kind=new.kind)
    form = _fill_in(request, fresh, sent, new.files, new.code_file)
    _require_valid(form)
    row = store_workload(form, request.user)
    return send_described(request, "workloads", row.pk, status=HTTPStatus.CREATED)


@router.patch("workloads/{pk}", auth=CATALOGUE, response=CHANGED)
def change_workload(request: ApiRequest, pk: Key, change: WorkloadChange) -> HttpResponse:
    """Change a workload that no launched experiment holds; its visibility always."""
    row = changeable_row(request, Workload, pk, "owner")
    if row.parent_id:
        refuse_now(workloads.why_not_edit(row))

    def change_others(sent: dict[str, Any]) -> None:
        refuse_now(workloads.why_not_edit(row))
        form = _fill_in(request, row, sent, change.files, change.code_file)
        _require_valid(form)
        with refusals_as_conflicts(NotEditable):
            store_workload(form, request.user)

    change_row(request, row, change, change_others)
    return send_described(request, "workloads", pk)


@router.delete(
    "workloads/{pk}", auth=CATALOGUE, response={204: None, 409: ProblemSchema, **REFUSED}
)
def delete_workload(request: ApiRequest, pk: Key) -> HttpResponse:
    """Delete a workload that no experiment names."""
    row = changeable_row(request, Workload, pk)
    refuse_now(workloads.why_not_delete(row))
    audit.delete(request.user, row)
    return HttpResponse(status=HTTPStatus.NO_CONTENT)


def _fill_in(
    request: ApiRequest,
    row: Workload,
    sent: dict[str, Any],
    files: Mapping[str, FileContent] | None,
    code_file: FileContent | None,
) -> WorkloadForm:
    """Return the form of a workload, filled in with what was sent and what it has."""
    for name in (FILES, CODE_FILE):
        sent.pop(name, None)
    parameters = sent.pop("parameters", None) or {}
    kind = WORKLOADS[row.kind]
    known = {parameter.name: parameter for parameter in kind.parameters}
    refuse_unknown_names(parameters, known, "parameters.")
    unknown = [name for name, given in ((FILES, files), (CODE_FILE, code_file)) if given]
    if unknown and FILES not in known:
        problems = [
            FieldProblem(name, f"Workloads of the kind {row.kind} send no files.")
            for name in unknown
        ]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)
    cleaned, problems = {}, []
    for name, value in parameters.items():
        value = known[name].default if value is None else value
        try:
            cleaned[name] = known[name].clean(value)
        except ValueError as error:
            label = f"{name} {error}."
            problems.append(FieldProblem(f"parameters.{name}", label))
    if problems:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)
    form_class = choose_form(row.kind)
    extra = _list_rows(request, row, cleaned) if issubclass(form_class, CommandForm) else {}

    def make(*bound: Any) -> WorkloadForm:
        if bound:
            for name, values in extra.items():
                bound[0].setlist(name, values)
        return form_class(*bound, instance=row, kind=row.kind, user=request.user)

    texts = {
        name: join_arguments(value) if known[name].type == "words" else value  # type: ignore[arg-type]
        for name, value in cleaned.items()
        if not (extra and name in (FILES, METRICS))
    }
    return fill_in(make, sent | texts, make_uploads(files or {}, {CODE_FILE: code_file}))


def _list_rows(
    request: ApiRequest, row: Workload, parameters: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Return what the form of a command sends of metrics and of files that are here already."""
    now = row.parameters
    kept = parameters.get(FILES, now.get(FILES, {}))
    closed = find_closed_files(set(kept.values()) - SENT.keys(), request.user)
    here = {file.name for file in list_known_files(kept) if file.sha256 not in closed}
    problems = [
        FieldProblem(f"parameters.{FILES}.{name}", NOT_HERE.format(name))
        for name in kept.keys() - here
        if FILES in parameters
    ]
    if problems:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)
    return {
        "kept": [f"{sha256} {name}" for name, sha256 in kept.items()],
        **name_metric_fields(parameters.get(METRICS, now.get(METRICS, []))),
    }


def _require_valid(form: WorkloadForm) -> None:
    """Raise Problem 422 with all errors of a workload's form, by the names of the body."""
    problems = list(_name_as_sent(form))
    if problems:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)


def _name_as_sent(form: WorkloadForm) -> Iterable[FieldProblem]:
    names = {parameter.name for parameter in form.kind.parameters}
    for problem in list_form_problems(form):
        field = f"parameters.{problem.field}" if problem.field in names else problem.field
        yield FieldProblem(FILES if field == "uploads" else field, problem.message)
    if isinstance(form, CommandForm):
        for number, metric in enumerate(form.metrics):
            for problem in list_form_problems(metric):
                place = f"parameters.{METRICS}.{number}.{problem.field}".rstrip(".")
                yield FieldProblem(place, problem.message)
