"""Jobs that people carry to a machine that Tare cannot reach, and the results that they bring."""

from __future__ import annotations

from http import HTTPStatus

from django.http import StreamingHttpResponse
from ninja import Schema

from dashboard.api.document import describe_content
from dashboard.api.experiment_actions import find_own
from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.form_bodies import require_valid
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.problems import (
    FieldProblem,
    Problem,
    ProblemSchema,
    refusals_as_conflicts,
    refuse,
)
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.sent_parts import FILE, Json, describe_parts, require_parts
from dashboard.api.tokens import EXPERIMENTS
from dashboard.execution.by_hand_views import TOO_LARGE, ResultsForm
from dashboard.uploads import was_too_large
from experiments.access.permissions import why_not_use
from experiments.execution import NotBrought, NothingToCarry, bring_uploaded_results, write_jobs
from experiments.execution.by_hand_results import Brought
from experiments.models import Experiment

router = Router(tags=["By hand"])
NO_BOOLEAN = "Send “true” or “false”."
RESULTS: dict[str, Json] = {
    "archive": FILE,
    "is_final": {
        "type": "string",
        "enum": ["true", "false"],
        "description": "“true” where nothing runs there any more: jobs without an end then end as "
        "they are.",
    },
}


class RefusedJob(Schema):
    """A job of the archive that was not entered."""

    job: str
    why: str


class BroughtSchema(Schema):
    """What came of an archive of results."""

    sha256: str
    sentence: str
    entered_blocks: list[int]
    known_blocks: list[int]
    refused: list[RefusedJob]
    refused_in_all: int
    notes: list[str]
    jobs_left: int


def _find_carried(request: ApiRequest, pk: int) -> Experiment:
    row = find_own(request, pk)
    refuse(why_not_use(request.user, row.cluster))
    return row


@router.post(
    "experiments/{pk}/jobs.tar.gz",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={200: None, 409: ProblemSchema, **REFUSED},
    openapi_extra=describe_content("application/gzip", "The archive.", is_text=False),
)
def download_jobs(request: ApiRequest, pk: Key) -> StreamingHttpResponse:
    """Return the archive with all jobs that wait to be carried. Its events say who took it."""
    row = _find_carried(request, pk)
    with refusals_as_conflicts(NothingToCarry):
        archive = write_jobs(row, request.user)
    answer = StreamingHttpResponse(archive.content, content_type="application/gzip")
    answer["Content-Disposition"] = f'attachment; filename="{archive.name}"'
    return answer


@router.post(
    "experiments/{pk}/results",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={
        200: BroughtSchema,
        409: ProblemSchema,
        415: ProblemSchema,
        422: ProblemSchema,
        **REFUSED,
    },
    openapi_extra=describe_parts(RESULTS, required=("archive",)),
)
@idempotent
def bring_results(request: ApiRequest, pk: Key) -> BroughtSchema:
    """Enter the results that were brought back, and say of each job what became of it."""
    row = _find_carried(request, pk)
    require_parts(request, RESULTS)
    if request.POST.get("is_final", "false") not in ("true", "false"):
        problems = [FieldProblem("is_final", NO_BOOLEAN)]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, NO_BOOLEAN, problems)
    form = ResultsForm(request.POST, request.FILES)
    if was_too_large(request):
        form.fields["archive"].error_messages["required"] = TOO_LARGE
    require_valid(form)
    sent = form.cleaned_data["archive"]
    try:
        brought = bring_uploaded_results(
            row, sent.file, request.user, name=sent.name, is_final=form.cleaned_data["is_final"]
        )
    except NotBrought as refusal:
        text = f"{refusal} Nothing of it was entered."
        problems = [FieldProblem("archive", text)]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, text, problems) from refusal
    return _describe(brought)


def _describe(brought: Brought) -> BroughtSchema:
    return BroughtSchema(
        sha256=brought.sha256,
        sentence=brought.describe(),
        entered_blocks=sorted({row.block for row in brought.entered}),
        known_blocks=sorted({row.block for row in brought.known}),
        refused=[RefusedJob(job=row.title, why=row.why) for row in brought.shown],
        refused_in_all=len(brought.refused),
        notes=brought.notes,
        jobs_left=brought.left,
    )
