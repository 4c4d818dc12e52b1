"""The parity report of a draft by the API: inspections, and differences that a person waives."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Field, Path, Router, Schema

from dashboard.api.experiment_actions import find_own
from dashboard.api.experiment_routes import REFUSED, Key, find_experiment
from dashboard.api.form_bodies import INVALID, StrictBody
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.list_parts import send_row
from dashboard.api.problems import FieldProblem, Problem, ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.tokens import EXPERIMENTS, READ
from experiments.models import Environment, Experiment
from experiments.notify import enqueue_tick
from experiments.software import inspections, parity_reports
from experiments.software.parity_reports import ParityReport

router = Router(tags=["Parity"])
FROZEN = "A launched experiment is frozen."
NO_REASON = "Write down why. The reason follows the verdict."
NO_WAIVERS = "Nothing of it is waived."
EnvironmentKey = Annotated[
    int, Path(ge=1, lt=2**63, description="The number of an environment of the experiment.")
]


class DifferenceSchema(Schema):
    """What differs from the baseline's software, and why that is waived; "" where it is not."""

    what: str
    grade: str
    on_baseline: str
    in_environment: str
    waived_because: str


class ReportSchema(Schema):
    """The comparison of one environment's software with the baseline's."""

    environment: int
    name: str
    answer: str
    is_known: bool
    is_same: bool
    differences: list[DifferenceSchema]


class ParitySchema(Schema):
    """The parity report of a draft; empty after its launch."""

    reports: list[ReportSchema]


class WaiverRequest(StrictBody):
    """Which differences of an environment a person lets pass, and why."""

    differences: list[str] = Field(min_length=1, max_length=1000, description="What differs.")
    reason: str = Field(min_length=1, max_length=1000)


def _describe(row: Experiment) -> ParitySchema:
    reports = parity_reports.make_reports(row) if row.is_draft else []
    return ParitySchema(reports=[_describe_report(report) for report in reports])


def _describe_report(report: ParityReport) -> ReportSchema:
    return ReportSchema(
        environment=report.environment.pk,
        name=str(report.environment),
        answer=report.answer,
        is_known=report.is_known,
        is_same=report.is_same,
        differences=[
            DifferenceSchema(
                what=difference.what,
                grade=str(difference.grade),
                on_baseline=difference.on_baseline,
                in_environment=difference.in_environment,
                waived_because=waiver.reason if waiver else "",
            )
            for difference, waiver in report.rows
        ],
    )


@router.get("experiments/{pk}/parity", auth=READ, response={200: ParitySchema, **REFUSED})
def read_parity(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return how the software of each environment of a draft differs from the baseline's."""
    row = find_experiment(request, pk)
    return send_row(request, _describe(row).model_dump(mode="json"))


@router.post(
    "experiments/{pk}/parity/inspect",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={200: ParitySchema, 409: ProblemSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
def inspect_unknown_software(request: ApiRequest, pk: Key) -> ParitySchema:
    """Have the cluster inspect every environment whose software is not known."""
    row = find_own(request, pk)
    unknown = {
        software.environment.pk: software.environment
        for report in parity_reports.make_reports(row)
        for software in report.unknown
    }
    try:
        with transaction.atomic():
            for environment in unknown.values():
                inspections.request_inspection(environment, request.user, row.partition)
    except inspections.NotRequested as refusal:
        detail = f"No inspection was requested. {refusal}"
        raise Problem(HTTPStatus.CONFLICT, detail) from refusal
    transaction.on_commit(lambda: enqueue_tick(row.cluster_id))
    return _describe(row)


@router.post(
    "experiments/{pk}/waivers/{environment}",
    auth=EXPERIMENTS,
    response={200: ParitySchema, 409: ProblemSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
def waive_differences(
    request: ApiRequest, pk: Key, environment: EnvironmentKey, waiver: WaiverRequest
) -> ParitySchema:
    """Let differences of an environment pass, with a reason; all that are named, or none."""
    row, chosen = _find_draft(request, pk, environment)
    reason = " ".join(waiver.reason.split())
    problems = [] if reason else [FieldProblem("reason", NO_REASON)]
    reports = [each for each in parity_reports.make_reports(row) if each.environment == chosen]
    known = {difference.what for report in reports for difference in report.differences}
    problems += [
        FieldProblem(f"differences.{place}", "There is no such difference today.")
        for place, what in enumerate(waiver.differences)
        if what not in known
    ]
    if problems:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)
    parity_reports.waive_differences(row, chosen, waiver.differences, reason, request.user)
    return _describe(row)


@router.delete(
    "experiments/{pk}/waivers/{environment}",
    auth=EXPERIMENTS,
    response={200: ParitySchema, 409: ProblemSchema, **REFUSED},
)
def withdraw_waivers(request: ApiRequest, pk: Key, environment: EnvironmentKey) -> ParitySchema:
    """Let no difference of an environment pass any more."""
    row, chosen = _find_draft(request, pk, environment)
    if not parity_reports.withdraw_waivers(row, chosen, request.user):
        raise Problem(HTTPStatus.CONFLICT, NO_WAIVERS)
    return _describe(row)


def _find_draft(request: ApiRequest, pk: int, environment: int) -> tuple[Experiment, Environment]:
    row = find_own(request, pk)
    chosen = get_object_or_404(row.environments, pk=environment)
    if not row.is_draft:
        raise Problem(HTTPStatus.CONFLICT, FROZEN)
    return row, chosen
