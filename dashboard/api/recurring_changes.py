"""What is done to recurring experiments by the API: begun, changed, stopped, launched; tokens."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpResponse
from django.urls import reverse
from ninja import Field, Schema

from dashboard.api.experiment_actions import find_own
from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.form_bodies import StrictBody, require_offered_groups, require_valid
from dashboard.api.hidden_variables import hide_variables
from dashboard.api.idempotency import idempotent, send_secret
from dashboard.api.limits import HEAVY
from dashboard.api.problems import FieldProblem, Problem, ProblemSchema, refuse
from dashboard.api.recurring_routes import (
    RecurringSchema,
    find_recurring,
    read_recurring_experiment,
)
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import EXPERIMENTS
from dashboard.api.visibility_changes import VisibilityChange, choose_visibility
from dashboard.recurring.recurring_forms import RecurringForm
from experiments.access import audit
from experiments.access.permissions import why_not_change
from experiments.models import RecurringExperiment
from experiments.recurring import (
    explain_why_not_recur,
    recurring_actions,
)
from experiments.recurring.commit_triggers import make_token, withdraw_token

router = Router(tags=["Recurring experiments"])
STOPPED_BEFORE = "It was stopped before."
NO_TOKEN = "It has no token."  # noqa: S105
Days = Annotated[int, Field(ge=1, le=366)]


class RecurringToken(Schema):
    """A token with which programs ask for the next recurrence after a commit."""

    token: str | None
    address: str


class RecurringChange(VisibilityChange):
    """What is to be another; what is not sent stays."""

    every_days: Days | None = Field(None, description="Null: it is not launched by time.")
    on_changes: bool = Field(False, description="After a driver, kernel or runtime has changed.")
    most_recurrences: Annotated[int, Field(ge=2, le=1000)] = Field(
        52, description="The experiment itself counts as the first."
    )
    ends_on: str | None = Field(
        None,
        max_length=10,
        description="The last day, by UTC.",
        json_schema_extra={"format": "date"},
    )
    charted_metrics: list[str] = Field([], description="Further metrics to chart.")


class RecurringRule(RecurringChange):
    """When an experiment is launched again."""

    every_days: Days | None = Field(7, description="Null: it is not launched by time.")


class LimitsStart(StrictBody):
    """From where limits are computed."""

    first: Annotated[int, Field(ge=1, lt=2**31)] = Field(
        description="The number of the first recurrence that counts."
    )


CHANGED: dict[int, Any] = {
    200: RecurringSchema,
    409: ProblemSchema,
    422: ProblemSchema,
    **REFUSED,
}


def _find_own(request: ApiRequest, pk: int) -> RecurringExperiment:
    row = find_recurring(request, pk)
    refuse(why_not_change(request.user, row))
    return row


@router.post(
    "experiments/{pk}/recur",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={201: RecurringSchema, 409: ProblemSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
def make_recurring_experiment(request: ApiRequest, pk: Key, rule: RecurringRule) -> HttpResponse:
    """Have a launched experiment launched again by a rule."""
    source = find_own(request, pk)
    if not recurring_actions.is_recurrable(source):
        raise PermissionDenied(recurring_actions.NOT_LAUNCHED)
    if why_not := explain_why_not_recur(source):
        raise Problem(HTTPStatus.CONFLICT, why_not)
    row = recurring_actions.prepare_recurring(source, request.user)
    form = _make_form(request, row, rule, rule.model_dump())
    with audit.log_change(request.user, row):
        form.save()
        recurring_actions.begin_recurring(row)
    answer = read_recurring_experiment(request, row.pk)
    answer.status_code = HTTPStatus.CREATED
    answer["Location"] = reverse("api:read_recurring_experiment", args=[row.pk])
    return answer


@router.patch(
    "recurring/{pk}",
    auth=EXPERIMENTS,
    response={200: RecurringSchema, 422: ProblemSchema, **REFUSED},
)
def change_recurring_experiment(
    request: ApiRequest, pk: Key, change: RecurringChange
) -> HttpResponse:
    """Change its rule, its end, its charts or who may view it; all of it, or nothing."""
    row = _find_own(request, pk)
    form = _make_form(request, row, change, change.model_dump(exclude_unset=True))
    with audit.log_change(request.user, row):
        form.save()
    return read_recurring_experiment(request, pk)


def _make_form(
    request: ApiRequest, row: RecurringExperiment, change: RecurringChange, sent: dict[str, Any]
) -> RecurringForm:
    """Return the form of the page, filled in with the row and what was sent, and valid."""
    values = {
        name: getattr(row, name)
        for name in ("every_days", "on_changes", "most_recurrences", "charted_metrics")
    }
    values["ends_on"] = row.ends_at.date() if row.ends_at else None
    data = values | sent | choose_visibility(row, change)
    form = RecurringForm(data, instance=row, user=request.user)
    require_offered_groups(form, change.groups)
    require_valid(form)
    return form


@router.post("recurring/{pk}/stop", auth=EXPERIMENTS, throttle=HEAVY, response=CHANGED)
@idempotent
def stop_recurring_experiment(request: ApiRequest, pk: Key) -> HttpResponse:
    """Launch nothing of it any more; what was launched goes on."""
    if not recurring_actions.stop_recurring(_find_own(request, pk), request.user):
        raise Problem(HTTPStatus.CONFLICT, STOPPED_BEFORE)
    return read_recurring_experiment(request, pk)


@router.post("recurring/{pk}/launch", auth=EXPERIMENTS, throttle=HEAVY, response=CHANGED)
@idempotent
def launch_recurrence(request: ApiRequest, pk: Key) -> HttpResponse:
    """Ask for the next recurrence now; it waits while another one lives."""
    if not recurring_actions.request_launch(_find_own(request, pk)):
        raise Problem(HTTPStatus.CONFLICT, recurring_actions.OVER)
    return read_recurring_experiment(request, pk)


@router.post("recurring/{pk}/limits", auth=EXPERIMENTS, response=CHANGED)
@idempotent
def restart_limits(request: ApiRequest, pk: Key, start: LimitsStart) -> HttpResponse:
    """Compute limits of the recurrences from one on, as after a change that is meant to stay."""
    row = _find_own(request, pk)
    if why_not := recurring_actions.restart_limits(row, start.first, request.user):
        problems = [FieldProblem("first", why_not)]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, why_not, problems)
    return read_recurring_experiment(request, pk)


@router.post(
    "recurring/{pk}/token",
    auth=EXPERIMENTS,
    response={201: RecurringToken, 409: ProblemSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
@hide_variables
def make_recurring_token(request: ApiRequest, pk: Key) -> HttpResponse:
    """Make a token, which is sent once; the one before is worth nothing any more."""
    row = _find_own(request, pk)
    with transaction.atomic():
        made = make_token(row)
        audit.note(request.user, "token made", row)
    content = {"token": made, "address": reverse("recurring_trigger")}
    return send_secret(content, "token", HTTPStatus.CREATED)


@router.delete(
    "recurring/{pk}/token", auth=EXPERIMENTS, response={204: None, 409: ProblemSchema, **REFUSED}
)
def withdraw_recurring_token(request: ApiRequest, pk: Key) -> HttpResponse:
    """Make the token worth nothing."""
    row = _find_own(request, pk)
    with transaction.atomic():
        if not withdraw_token(row):
            raise Problem(HTTPStatus.CONFLICT, NO_TOKEN)
        audit.note(request.user, "token withdrawn", row)
    return HttpResponse(status=HTTPStatus.NO_CONTENT)
