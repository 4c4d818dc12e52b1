"""The parity report of a draft by the API: what differs from the baseline, inspected and waived."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Field, Schema

from dashboard.api.experiment_actions import find_own
from dashboard.api.experiment_routes import REFUSED, Key, find_experiment
from dashboard.api.form_bodies import RowKey, StrictBody
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.list_parts import send_row
from dashboard.api.problems import FieldProblem, Problem, ProblemSchema, refusals_as_conflicts
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import EXPERIMENTS, READ
from experiments.models import Environment, Experiment, Waiver
from experiments.notify import enqueue_tick
from experiments.software import inspections, parity_reports
from experiments.software.parity import Difference
from experiments.software.parity_reports import ParityReport

router = Router(tags=["Experiments"])
NO_REASON = "Write down why. The reason follows the verdict."
NONE_CHOSEN = "Nothing was waived: no difference was chosen that is there today."
NONE_WAIVED = "Nothing of it is waived."


class WaiverSchema(Schema):
    """Why a difference may be there, and who says so."""

    reason: str
    by: str
    at: datetime


class SoftwareDifferenceSchema(Schema):
    """One thing that the environment has otherwise than the baseline."""

    what: str
    on_baseline: str
    in_environment: str
    effect: str
    waived: WaiverSchema | None


class ParitySchema(Schema):
    """Whether an environment has the software of the baseline."""

    environment: int
    name: str
    is_known: bool = Field(description="False: one of both was not inspected as it is now.")
    is_being_inspected: bool
    answer: str
    differences: list[SoftwareDifferenceSchema]


class SoftwareSchema(Schema):
    """The parity report of a draft; nothing after its launch."""

    environments: list[ParitySchema]


class WaiverRequest(StrictBody):
    """Differences of one environment that are meant to be there."""

    environment: RowKey
    what: list[str] = Field(description="Their names in the parity report.")
    reason: str


class WithdrawalRequest(StrictBody):
    """An environment whose waivers are taken back."""

    environment: RowKey


CHANGED: dict[int, Any] = {200: SoftwareSchema, 409: ProblemSchema, 422: ProblemSchema, **REFUSED}


@router.get("experiments/{pk}/software", auth=READ, response={200: SoftwareSchema, **REFUSED})
def read_software(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return what differs between the software of a draft's environments and of its baseline."""
    row = find_experiment(request, pk)
    reports = parity_reports.make_reports(row) if row.is_draft else []
    content = SoftwareSchema(environments=[_describe(report) for report in reports])
    return send_row(request, content.model_dump(mode="json"))


def _describe(report: ParityReport) -> ParitySchema:
    return ParitySchema(
        environment=report.environment.pk,
        name=report.environment.name,
        is_known=report.is_known,
        is_being_inspected=any(software.under_way for software in report.unknown),
        answer=report.answer,
        differences=[_describe_difference(*row) for row in report.rows],
    )


def _describe_difference(row: Difference, waiver: Waiver | None) -> SoftwareDifferenceSchema:
    waived = None
    if waiver:
        waived = WaiverSchema(reason=waiver.reason, by=str(waiver.by), at=waiver.at)
    names = ("what", "on_baseline", "in_environment", "effect")
    return SoftwareDifferenceSchema(waived=waived, **{name: getattr(row, name) for name in names})


@router.post(
    "experiments/{pk}/software/inspect", auth=EXPERIMENTS, throttle=HEAVY, response=CHANGED
)
@idempotent
def inspect_software(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have the cluster inspect each environment of a draft whose software is not known."""
    row = find_own(request, pk)
    with refusals_as_conflicts(inspections.NotRequested):
        parity_reports.request_inspections(row, request.user)
    enqueue_tick(row.cluster_id)
    return read_software(request, pk)


@router.post("experiments/{pk}/software/waive", auth=EXPERIMENTS, response=CHANGED)
@idempotent
def waive_differences(request: ApiRequest, pk: Key, waiver: WaiverRequest) -> HttpResponse:
    """Waive differences of one environment, with a reason."""
    row = find_own(request, pk)
    environment = _find_environment(row, waiver.environment)
    if not (reason := waiver.reason.strip()):
        problems = [FieldProblem("reason", NO_REASON)]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, NO_REASON, problems)
    if not parity_reports.waive_differences(row, environment, waiver.what, reason, request.user):
        raise Problem(HTTPStatus.CONFLICT, NONE_CHOSEN)
    return read_software(request, pk)


@router.post("experiments/{pk}/software/unwaive", auth=EXPERIMENTS, response=CHANGED)
@idempotent
def withdraw_waivers(request: ApiRequest, pk: Key, withdrawal: WithdrawalRequest) -> HttpResponse:
    """Take back all waivers of one environment."""
    row = find_own(request, pk)
    environment = _find_environment(row, withdrawal.environment)
    if not parity_reports.withdraw_waivers(row, environment, request.user):
        raise Problem(HTTPStatus.CONFLICT, NONE_WAIVED)
    return read_software(request, pk)


def _find_environment(row: Experiment, pk: int) -> Environment:
    """Return an environment of an experiment. Raises Http404 for any other one."""
    environment: Environment = get_object_or_404(row.environments, pk=pk)
    return environment
