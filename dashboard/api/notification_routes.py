"""A person's notifications by the API: the list, what is read, and what they are told and how."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Field, Query, Schema

from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.form_bodies import INVALID, StrictBody, require_valid
from dashboard.api.list_parts import MOST, USUAL, send_list, send_row
from dashboard.api.problems import FieldProblem, Problem, ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import EXPERIMENTS, READ
from dashboard.notifications.notification_forms import ChoicesForm
from experiments.models import Notification, NotificationChoices, NotificationWay
from experiments.notifications import (
    describe_notification,
    list_notifications,
    mark_read,
    parse_moment,
)

router = Router(tags=["Notifications"])


class NotificationSchema(Schema):
    """What one person is told about one subject."""

    id: int
    kind: str
    what: str
    title: str
    sentence: str
    page: str
    created_at: datetime
    changed_at: datetime
    read_at: datetime | None


class NotificationList(Schema):
    """A part of the list of notifications."""

    items: list[NotificationSchema]
    next: str | None


class ReadCount(Schema):
    """How many notifications were marked as read."""

    marked: int


class ReadUntil(StrictBody):
    """What was shown: what came or changed later stays unread."""

    until: str | None = Field(
        None,
        max_length=60,
        description="A moment with its zone; without it, all.",
        json_schema_extra={"format": "date-time"},
    )


class ChoicesSchema(Schema):
    """Of each kind, the ways by which a person is told."""

    kinds: dict[str, list[str]]
    ways: list[str]


class ChoicesChange(StrictBody):
    """What is to be another; a kind that is not sent stays."""

    kinds: dict[str, list[NotificationWay]]


def _describe(rows: Sequence[Notification]) -> Iterable[NotificationSchema]:
    for row in rows:
        text = describe_notification(row)
        yield NotificationSchema(
            id=row.pk,
            kind=row.kind,
            what=text.what,
            title=text.title,
            sentence=text.sentence,
            page=text.address,
            created_at=row.created_at,
            changed_at=row.changed_at,
            read_at=row.read_at,
        )


def _select(request: ApiRequest) -> Any:
    rows = list_notifications(request.user)
    related = ("experiment", "cluster", "credential")
    return rows.select_related(*related).defer("experiment__plan")


@router.get(
    "notifications",
    auth=READ,
    response={200: NotificationList, 401: ProblemSchema, 422: ProblemSchema},
)
def list_own_notifications(
    request: ApiRequest,
    unread: Annotated[bool, Query(description="Those alone that are not read.")] = False,
    limit: Annotated[int, Query(ge=1, le=MOST)] = USUAL,
    cursor: str = "",
    fields: str = "",
) -> HttpResponse:
    """List one's own notifications, the newest first."""
    rows = _select(request)
    return send_list(
        request,
        rows.filter(read_at=None) if unread else rows,
        NotificationSchema,
        _describe,
        limit=limit,
        cursor=cursor,
        fields=fields,
    )


@router.post(
    "notifications/read",
    auth=EXPERIMENTS,
    response={200: ReadCount, 422: ProblemSchema, **REFUSED},
)
def mark_notifications_read(request: ApiRequest, shown: ReadUntil) -> ReadCount:
    """Mark all as read that have not changed since a moment."""
    until = None if shown.until is None else _parse_moment(shown.until)
    return ReadCount(marked=mark_read(request.user, until=until))


def _parse_moment(text: str) -> datetime:
    moment = parse_moment(text)
    if moment is None:
        problems = [FieldProblem("until", "Send a moment with its zone: 2026-11-27T03:00:00Z.")]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)
    return moment


@router.get("notifications/choices", auth=READ, response={200: ChoicesSchema, 401: ProblemSchema})
def read_own_choices(request: ApiRequest) -> HttpResponse:
    """Return what one is told, and how."""
    return send_row(request, _describe_choices(request).model_dump(mode="json"))


def _make_form(request: ApiRequest, data: dict[str, Any] | None = None) -> ChoicesForm:
    row = NotificationChoices.objects.filter(pk=request.user.pk).first()
    return ChoicesForm(row or NotificationChoices(person=request.user), data)


def _describe_choices(request: ApiRequest) -> ChoicesSchema:
    form = _make_form(request)
    kinds = {
        str(kind): [str(way) for way in form.offered if form[f"{kind}-{way}"].initial]
        for kind in form.kinds
    }
    return ChoicesSchema(kinds=kinds, ways=list(form.offered))


@router.patch(
    "notifications/choices",
    auth=EXPERIMENTS,
    response={200: ChoicesSchema, 422: ProblemSchema, **REFUSED},
)
def change_own_choices(request: ApiRequest, change: ChoicesChange) -> ChoicesSchema:
    """Choose what one is told, and how."""
    form = _make_form(request)
    problems = []
    for kind, ways in change.kinds.items():
        if kind not in form.kinds:
            known = ", ".join(form.kinds)
            message = f"You are told of no such kind; there are {known}."
            problems.append(FieldProblem(f"kinds.{kind[:50]}", message))
        elif other := [way for way in ways if way not in form.offered]:
            message = f"You cannot be told by {other[0]}; there are {', '.join(form.offered)}."
            problems.append(FieldProblem(f"kinds.{kind}", message))
    if problems:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)
    chosen = {
        str(kind): change.kinds.get(
            str(kind), [way for way in form.offered if form[f"{kind}-{way}"].initial]
        )
        for kind in form.kinds
    }
    form = _make_form(
        request, {f"{kind}-{way}": "on" for kind, ways in chosen.items() for way in ways}
    )
    require_valid(form)
    form.save()
    return _describe_choices(request)


@router.post(
    "notifications/{pk}/read",
    auth=EXPERIMENTS,
    response={200: NotificationSchema, 422: ProblemSchema, **REFUSED},
)
def mark_notification_read(request: ApiRequest, pk: Key) -> NotificationSchema:
    """Mark one notification as read."""
    get_object_or_404(_select(request), pk=pk)
    mark_read(request.user, pk=pk)
    (described,) = _describe([_select(request).get(pk=pk)])
    return described
