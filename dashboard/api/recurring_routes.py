"""Recurring experiments by the API: their rules, launches, tokens and numbers over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Annotated, Any

from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from ninja import Query, Schema

from dashboard.api.document import describe_content
from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.list_parts import MOST, USUAL, send_list, send_row
from dashboard.api.problems import ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import READ
from dashboard.recurring import recurring_views
from dashboard.recurring.recurring_files import describe_page
from experiments.models import RecurringExperiment
from experiments.models.database_time import database_now
from experiments.recurring import (
    describe_state,
    read_history,
)

router = Router(tags=["Recurring experiments"])


class RecurringItemSchema(Schema):
    """A recurring experiment: the plan of an experiment, and when it is launched again."""

    id: int
    question: str
    experiment: int
    owner: str
    visibility: str
    every_days: int | None
    on_changes: bool
    most_recurrences: int
    ends_on: date | None
    charted_metrics: list[str]
    recurrences: int
    limits_from: int
    due_at: datetime | None
    requested_at: datetime | None
    stopped_at: datetime | None
    problem: str
    created_at: datetime
    page: str


class RecurringSchema(RecurringItemSchema):
    """A recurring experiment, and what happens next."""

    is_over: bool
    state: str


class RecurringList(Schema):
    """A part of the list of recurring experiments."""

    items: list[RecurringItemSchema]
    next: str | None


def _select(request: ApiRequest) -> Any:
    rows = RecurringExperiment.objects.visible_to(request.user)
    return rows.select_related("owner", "source", "stopped_by").defer("source__plan")


def find_recurring(request: ApiRequest, pk: int) -> RecurringExperiment:
    """Return the recurring experiment. Raises Http404 where one may not view it."""
    row: RecurringExperiment = get_object_or_404(_select(request), pk=pk)
    return row


def _list_facts(row: RecurringExperiment) -> dict[str, Any]:
    other = {"id", "experiment", "owner", "ends_on", "recurrences", "page"}
    facts = {name: getattr(row, name) for name in RecurringItemSchema.model_fields.keys() - other}
    return facts | {
        "id": row.pk,
        "experiment": row.source_id,
        "owner": str(row.owner),
        "ends_on": row.ends_at.date() if row.ends_at else None,
        "recurrences": row.last_number,
        "page": row.get_absolute_url(),
    }


def _describe_items(rows: Sequence[RecurringExperiment]) -> Iterable[RecurringItemSchema]:
    return (RecurringItemSchema(**_list_facts(row)) for row in rows)


@router.get(
    "recurring", auth=READ, response={200: RecurringList, 401: ProblemSchema, 422: ProblemSchema}
)
def list_recurring_experiments(
    request: ApiRequest,
    limit: Annotated[int, Query(ge=1, le=MOST)] = USUAL,
    cursor: str = "",
    fields: str = "",
) -> HttpResponse:
    """List the recurring experiments that one may view, the newest first."""
    return send_list(
        request,
        _select(request),
        RecurringItemSchema,
        _describe_items,
        limit=limit,
        cursor=cursor,
        fields=fields,
    )


@router.get("recurring/{pk}", auth=READ, response={200: RecurringSchema, **REFUSED})
def read_recurring_experiment(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return one recurring experiment, and what happens next."""
    row, now = find_recurring(request, pk), database_now()
    facts = _list_facts(row) | {"is_over": row.is_over(now), "state": describe_state(row, now)}
    return send_row(request, RecurringSchema(**facts).model_dump(mode="json"))


@router.get("recurring/{pk}/over-time", auth=READ, response={200: dict[str, Any], **REFUSED})
def read_over_time(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return its recurrences, and each value of its charts with the limits that judged it."""
    return send_row(request, describe_page(read_history(find_recurring(request, pk))))


@router.get(
    "recurring/{pk}/over-time.csv",
    auth=READ,
    response={200: None, **REFUSED},
    openapi_extra=describe_content("text/csv", "The points of all charts."),
)
def read_over_time_csv(request: ApiRequest, pk: Key) -> HttpResponseBase:
    """Return the points of all charts."""
    return recurring_views.recurring_csv(request, pk)  # type: ignore[arg-type]
