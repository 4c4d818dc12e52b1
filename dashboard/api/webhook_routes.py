"""A person's own webhooks by the API. A secret is sent once; an address is never sent back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from django.db import transaction
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.debug import sensitive_variables
from ninja import Field, Query, Schema

from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.form_bodies import StrictBody, require_valid
from dashboard.api.hidden_variables import hide_variables
from dashboard.api.idempotency import idempotent, send_secret
from dashboard.api.limits import HEAVY
from dashboard.api.list_parts import MOST, USUAL, send_list, send_row
from dashboard.api.problems import Problem, ProblemSchema, refusals_as_conflicts
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import EXPERIMENTS, READ
from dashboard.notifications.webhook_forms import WebhookForm
from experiments.access import audit
from experiments.encryption import Secret
from experiments.models import NotificationWay, Webhook
from experiments.models.notification import list_kinds
from experiments.notifications import list_open_ways, webhooks
from experiments.notify import enqueue_deliver

router = Router(tags=["Webhooks"])
IS_OFF = "It is switched off: switch it on first."
MOST_ANSWERS = 20


class AnswerSchema(Schema):
    """What came of posting once."""

    kind: str
    at: datetime
    seconds: float
    status: int | None
    body: str
    problem: str


class WebhookItemSchema(Schema):
    """A webhook by the host of its address: the rest of it may be secret."""

    id: int
    host: str
    kinds: list[str]
    is_on: bool
    why_off: str
    failures: int
    failing_since: datetime | None
    created_at: datetime
    page: str


class WebhookSchema(WebhookItemSchema):
    """A webhook with its last answers, the newest first."""

    answers: list[AnswerSchema]


class NewWebhookSchema(WebhookSchema):
    """A webhook, and the secret that signs what is posted: it is sent once."""

    secret: str | None


class WebhookList(Schema):
    """A part of the list of webhooks."""

    items: list[WebhookItemSchema]
    next: str | None


class WebhookChange(StrictBody):
    """What is to be another; what is not sent stays."""

    address: Annotated[str, Field(max_length=500)] | None = Field(
        None, description="It is stored encrypted, and not sent back."
    )
    kinds: list[str] | None = Field(None, description="What is posted there.")


class NewWebhook(WebhookChange):
    """Where is posted what."""

    address: Annotated[str, Field(max_length=500)] = Field(
        description="It is stored encrypted, and not sent back."
    )
    kinds: list[str] | None = Field(None, description="What is posted there; else all kinds.")


def _select(request: ApiRequest) -> Any:
    return Webhook.objects.filter(owner=request.user).select_related("owner")


def _find(request: ApiRequest, pk: int) -> Webhook:
    row: Webhook = get_object_or_404(_select(request), pk=pk)
    return row


def _list_facts(row: Webhook) -> dict[str, Any]:
    names = WebhookItemSchema.model_fields.keys() - {"id", "page"}
    facts = {name: getattr(row, name) for name in names}
    return facts | {"id": row.pk, "page": row.get_absolute_url()}


def _describe(row: Webhook) -> WebhookSchema:
    names = AnswerSchema.model_fields
    answers = [
        AnswerSchema(**{name: getattr(answer, name) for name in names})
        for answer in row.answers.all()[:MOST_ANSWERS]
    ]
    return WebhookSchema(**_list_facts(row), answers=answers)


def _describe_items(rows: Sequence[Webhook]) -> Iterable[WebhookItemSchema]:
    return (WebhookItemSchema(**_list_facts(row)) for row in rows)


def _send_with_secret(row: Webhook, secret: Secret, status: HTTPStatus) -> HttpResponse:
    content = _describe(row).model_dump(mode="json") | {"secret": secret.reveal()}
    return send_secret(content, "secret", status)


def _require_webhooks() -> None:
    if NotificationWay.WEBHOOK not in list_open_ways():
        raise Http404


@router.get(
    "webhooks", auth=READ, response={200: WebhookList, 401: ProblemSchema, 422: ProblemSchema}
)
def list_own_webhooks(
    request: ApiRequest,
    limit: Annotated[int, Query(ge=1, le=MOST)] = USUAL,
    cursor: str = "",
    fields: str = "",
) -> HttpResponse:
    """List one's own webhooks, the newest first."""
    return send_list(
        request,
        _select(request),
        WebhookItemSchema,
        _describe_items,
        limit=limit,
        cursor=cursor,
        fields=fields,
    )


@router.get("webhooks/{pk}", auth=READ, response={200: WebhookSchema, **REFUSED})
def read_webhook(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return one of one's own webhooks, with its last answers."""
    return send_row(request, _describe(_find(request, pk)).model_dump(mode="json"))


@router.post(
    "webhooks",
    auth=EXPERIMENTS,
    response={201: NewWebhookSchema, 409: ProblemSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
@hide_variables
def make_webhook(request: ApiRequest, webhook: NewWebhook) -> HttpResponse:
    """Add a webhook; its secret is in this answer and nowhere else."""
    _require_webhooks()
    form = _make_form(request, webhook)
    with refusals_as_conflicts(webhooks.NotDone), transaction.atomic():
        row, secret = webhooks.add_webhook(
            request.user, form.cleaned_data["address"], form.cleaned_data["kinds"]
        )
        audit.note(request.user, "added", row)
    answer = _send_with_secret(row, secret, HTTPStatus.CREATED)
    answer["Location"] = reverse("api:read_webhook", args=[row.pk])
    return answer


@router.patch(
    "webhooks/{pk}",
    auth=EXPERIMENTS,
    response={200: WebhookSchema, 422: ProblemSchema, **REFUSED},
)
@hide_variables
def change_webhook(request: ApiRequest, pk: Key, change: WebhookChange) -> HttpResponse:
    """Change where a webhook posts, or what; all of it, or nothing."""
    row = _find(request, pk)
    form = _make_form(request, change, row)
    webhooks.change_webhook(
        row, form.cleaned_data["address"], form.cleaned_data["kinds"], by=request.user
    )
    return read_webhook(request, pk)


@sensitive_variables()
def _make_form(request: ApiRequest, sent: WebhookChange, row: Webhook | None = None) -> WebhookForm:
    """Return the form of the page, filled in with the row and what was sent, and valid."""
    offered = [str(kind) for kind in list_kinds(request.user)]
    form = WebhookForm(request.user, webhook=row)
    # Kinds of a role that was taken away meanwhile are no longer offered, and go.
    kinds = [kind for kind in form.initial["kinds"] if str(kind) in offered]
    address = form.initial.get("address", "")
    data = {
        "address": address if sent.address is None else sent.address,
        "kinds": kinds if sent.kinds is None else sent.kinds,
    }
    form = WebhookForm(request.user, data, webhook=row)
    require_valid(form)
    return form


@router.post(
    "webhooks/{pk}/test",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={202: WebhookSchema, 409: ProblemSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
def test_webhook(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have a test posted by a worker; its answer is among those of the webhook afterwards."""
    row = _find(request, pk)
    _require_webhooks()
    if not row.is_on:
        raise Problem(HTTPStatus.CONFLICT, IS_OFF)
    webhooks.queue_test(row)
    enqueue_deliver(request.user.pk)
    answer = read_webhook(request, pk)
    answer.status_code = HTTPStatus.ACCEPTED
    return answer


@router.post(
    "webhooks/{pk}/rotate",
    auth=EXPERIMENTS,
    response={200: NewWebhookSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
@hide_variables
def rotate_webhook_secret(request: ApiRequest, pk: Key) -> HttpResponse:
    """Make another secret, which is sent once; for a day the old one signs too."""
    row = _find(request, pk)
    with transaction.atomic():
        secret = webhooks.rotate_secret(row)
        audit.note(request.user, "secret rotated", row)
    return _send_with_secret(row, secret, HTTPStatus.OK)


@router.post(
    "webhooks/{pk}/on",
    auth=EXPERIMENTS,
    response={200: WebhookSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
def switch_webhook_on(request: ApiRequest, pk: Key) -> HttpResponse:
    """Switch a webhook on, as if nothing had failed; what waited for it is posted then."""
    return _switch(request, pk, on=True)


@router.post(
    "webhooks/{pk}/off",
    auth=EXPERIMENTS,
    response={200: WebhookSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
def switch_webhook_off(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have nothing posted to a webhook until it is switched on again."""
    return _switch(request, pk, on=False)


def _switch(request: ApiRequest, pk: int, *, on: bool) -> HttpResponse:
    row = _find(request, pk)
    with transaction.atomic():
        webhooks.switch_webhook(row, on=on)
        audit.note(request.user, "switched on" if on else "switched off", row)
    return read_webhook(request, pk)


@router.delete("webhooks/{pk}", auth=EXPERIMENTS, response={204: None, **REFUSED})
def delete_webhook(request: ApiRequest, pk: Key) -> HttpResponse:
    """Delete a webhook, with its secret and what waits for it."""
    row = _find(request, pk)
    with transaction.atomic():
        audit.note(request.user, "deleted", row)
        row.delete()
    return HttpResponse(status=HTTPStatus.NO_CONTENT)
