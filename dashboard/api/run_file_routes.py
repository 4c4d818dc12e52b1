"""Files of runs by the API: the record, changes of the program, provenance, and what they left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from django.http import FileResponse, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from ninja import Path, Query, Schema

from dashboard.api.document import describe_content
from dashboard.api.experiment_actions import find_own
from dashboard.api.experiment_routes import REFUSED, Key, find_experiment
from dashboard.api.file_routes import JSONLD, send_as_page
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.list_parts import MOST, USUAL, send_list
from dashboard.api.problems import Problem, ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.run_routes import Uid, find_run
from dashboard.api.tokens import EXPERIMENTS, READ
from dashboard.execution import record_views, run_views
from dashboard.provenance import provenance_views
from experiments.execution.copy_requests import MOST_WANTED, request_copy
from experiments.execution.removed_files import explain_removal
from experiments.models import RunFile

router = Router(tags=["Runs"])
NO_COPY = "There is no copy of it here: have it fetched first. A copy is kept for a day."
FileKey = Annotated[int, Path(ge=1, lt=2**63, description="The id of a file of the run.")]
Number = Annotated[int, Path(ge=1, lt=10**6, description="Of the configuration, from 1.")]
Place = Annotated[int, Path(ge=1, lt=10**6, description="Of the environment in it, from 1.")]
GRAPH = describe_content(JSONLD, "The graph, as PROV-JSONLD.", is_text=False)


class RunFileSchema(Schema):
    """A file that a run has left on the cluster, and the copy of it that somebody asked for."""

    id: int
    path: str
    size_bytes: int
    sha256: str
    state: str
    requested_at: datetime | None
    copied_at: datetime | None
    done_bytes: int
    problem: str


class RunFileList(Schema):
    """A part of the list of files."""

    items: list[RunFileSchema]
    next: str | None


def _describe(rows: Sequence[RunFile]) -> Iterable[RunFileSchema]:
    names = RunFileSchema.model_fields.keys() - {"id"}
    for row in rows:
        yield RunFileSchema(id=row.pk, **{name: getattr(row, name) for name in names})


@router.get("runs/{uid}/files", auth=READ, response={200: RunFileList, **REFUSED})
def list_run_files(
    request: ApiRequest,
    uid: Uid,
    limit: Annotated[int, Query(ge=1, le=MOST)] = USUAL,
    cursor: str = "",
    fields: str = "",
) -> HttpResponse:
    """List the files that a run has left on its cluster."""
    rows = RunFile.objects.filter(run=find_run(request, uid))
    return send_list(
        request, rows, RunFileSchema, _describe, limit=limit, cursor=cursor, fields=fields
    )


def _find_file(request: ApiRequest, uid: str, pk: int) -> RunFile:
    run = find_run(request, uid)
    find_own(request, run.experiment_id)
    file: RunFile = get_object_or_404(RunFile.objects.select_related("run__job"), run=run, pk=pk)
    return file


@router.get(
    "runs/{uid}/files/{pk}",
    auth=READ,
    response={200: None, 409: ProblemSchema, **REFUSED},
    openapi_extra=describe_content("application/octet-stream", "The file.", is_text=False),
)
def send_run_file(request: ApiRequest, uid: Uid, pk: FileKey) -> HttpResponseBase:
    """Return the copy of a file that a run of one's own has left."""
    file = _find_file(request, uid, pk)
    copy = run_views.find_copy(file)
    if copy is None:
        raise Problem(HTTPStatus.CONFLICT, NO_COPY)
    return FileResponse(copy.open("rb"), content_type="application/octet-stream")


@router.post(
    "runs/{uid}/files/{pk}/fetch",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={202: RunFileSchema, 409: ProblemSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
def fetch_run_file(request: ApiRequest, uid: Uid, pk: FileKey) -> HttpResponse:
    """Have a file that a run has left copied from its cluster. Its copy is kept for a day."""
    file = _find_file(request, uid, pk)
    if not request_copy(file, request.user):
        why = f"it cannot be fetched, or is on its way, or you wait for {MOST_WANTED} others."
        detail = explain_removal(file.run.job) or f"{file}: {why}"
        raise Problem(HTTPStatus.CONFLICT, detail)
    file.refresh_from_db()
    (described,) = _describe([file])
    content = described.model_dump_json()
    return HttpResponse(content, status=HTTPStatus.ACCEPTED, content_type="application/json")


@router.get("runs/{uid}/record.json", auth=READ, response={200: dict[str, Any], **REFUSED})
def read_record(request: ApiRequest, uid: Uid) -> HttpResponse:
    """Return the record of a run: all that is kept of it, but what it printed."""
    return record_views.run_record(request, uid)  # type: ignore[arg-type]


@router.get(
    "runs/{uid}/changes.patch",
    auth=READ,
    response={200: None, **REFUSED},
    openapi_extra=describe_content("application/octet-stream", "A patch.", is_text=False),
)
def read_changes(request: ApiRequest, uid: Uid) -> HttpResponse:
    """Return what had changed in the git checkouts of a run's program, as a patch."""
    return record_views.run_changes(request, uid)  # type: ignore[arg-type]


@router.get(
    "runs/{uid}/provenance.jsonld",
    auth=READ,
    throttle=HEAVY,
    response={200: None, 503: ProblemSchema, **REFUSED},
    openapi_extra=GRAPH,
)
def read_run_provenance(
    request: ApiRequest,
    uid: Uid,
    metric: Annotated[str, Query(description="One metric of the run; else all.")] = "",
) -> HttpResponseBase:
    """Return where the values of a run come from."""
    find_run(request, uid)
    return send_as_page(provenance_views.run_provenance_file(request, uid))


@router.get(
    "experiments/{pk}/provenance/{number}/{place}.jsonld",
    auth=READ,
    throttle=HEAVY,
    response={200: None, 503: ProblemSchema, **REFUSED},
    openapi_extra=GRAPH,
)
def read_result_provenance(
    request: ApiRequest, pk: Key, number: Number, place: Place
) -> HttpResponseBase:
    """Return where one ratio and its verdict come from, with every run behind it."""
    find_experiment(request, pk)
    return send_as_page(provenance_views.result_provenance_file(request, pk, number, place))
