"""A person's own webhooks: to add, test, change, rotate, switch off and delete them.

A secret is on one page, fetched once after the request that made it, and nowhere else.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from django.contrib import messages
from django.db import transaction
from django.db.models import Max
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.notifications.webhook_forms import WebhookForm
from dashboard.typed_requests import Request
from experiments.access import audit
from experiments.encryption import Secret
from experiments.models import NotificationWay, Webhook
from experiments.models.database_time import database_now
from experiments.models.notification import TEST_KIND, list_kinds
from experiments.notifications import list_open_ways, webhooks
from experiments.notify import enqueue_deliver

SESSION_NAME = "made for webhook {}"
"""In the session, encrypted, until the page that shows it is fetched."""
LONGEST_TEST = timedelta(minutes=2)
"""As long the page waits for a test by itself."""


@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_post_parameters("address")
@sensitive_variables("form", "secret")
def new(request: Request) -> HttpResponse:
    """Add a webhook, and lead to the page that shows its secret once."""
    _require_webhooks()
    form = WebhookForm(request.user, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            with transaction.atomic():
                row, secret = webhooks.add_webhook(
                    request.user, form.cleaned_data["address"], form.cleaned_data["kinds"]
                )
                audit.note(request.user, "added", row)
        except webhooks.NotDone as problem:
            form.add_error(None, str(problem))
        else:
            return _lead_to_secret(request, row, secret)
    return render(request, "notifications/new_webhook.html", {"form": form})


@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_post_parameters("address")
@sensitive_variables("form")
def webhook(request: Request, pk: int) -> HttpResponse:
    """Show a webhook with its last answers, and save what is changed."""
    row = _find_own(request, pk)
    form = WebhookForm(
        request.user, request.POST if request.method == "POST" else None, webhook=row
    )
    if request.method == "POST" and form.is_valid():
        # Kinds of a role that was taken away meanwhile are no longer offered, and go.
        webhooks.change_webhook(
            row, form.cleaned_data["address"], form.cleaned_data["kinds"], by=request.user
        )
        messages.success(request, "Saved.")
        return redirect(row)
    now = database_now()
    labels = {str(kind): kind.label for kind in list_kinds(request.user)}
    context = {
        "webhook": row,
        "form": form,
        "answers": [
            (answer, "Test" if answer.kind == TEST_KIND else labels.get(answer.kind, answer.kind))
            for answer in row.answers.all()
        ],
        "waiting": row.deliveries.filter(message=None).count(),
        "test": _find_test(row, now) if row.is_on else "",
        "both_sign": row.has_previous_secret(now),
        "is_closed": NotificationWay.WEBHOOK not in list_open_ways(),
    }
    template = "notifications/webhook.html" + ("#live" if request.htmx else "")
    return render(request, template, context)


@require_POST
def test(request: Request, pk: int) -> HttpResponse:
    """Have a test posted by a worker; the page shows the answer."""
    row = _find_own(request, pk)
    _require_webhooks()
    if row.is_on:
        webhooks.queue_test(row)
        enqueue_deliver(request.user.pk)
    return redirect(f"{row.get_absolute_url()}#answers")


@require_POST
@sensitive_variables("secret")
def rotate(request: Request, pk: int) -> HttpResponse:
    """Make another secret, and lead to the page that shows it once."""
    row = _find_own(request, pk)
    with transaction.atomic():
        secret = webhooks.rotate_secret(row)
        audit.note(request.user, "secret rotated", row)
    return _lead_to_secret(request, row, secret)


@require_safe
@sensitive_variables("sealed", "secret")
def show_secret(request: Request, pk: int) -> HttpResponse:
    """Show a secret that was just made, once; fetched again, the page makes no other one."""
    row = _find_own(request, pk)
    sealed = request.session.pop(SESSION_NAME.format(pk), "")
    secret = Secret(sealed=sealed)
    if not sealed or not secret.opens():
        messages.info(request, "A secret is shown once. Where it is lost, make another one.")
        return redirect(f"{row.get_absolute_url()}#secret")
    context = {"webhook": row, "secret": secret.reveal()}
    return render(request, "notifications/webhook_secret.html", context)


@require_POST
def switch(request: Request, pk: int) -> HttpResponse:
    """Switch a webhook on or off."""
    row = _find_own(request, pk)
    is_on = request.POST.get("to") == "on"
    with transaction.atomic():
        webhooks.switch_webhook(row, on=is_on)
        audit.note(request.user, "switched on" if is_on else "switched off", row)
    return redirect(row)


@require_POST
def delete(request: Request, pk: int) -> HttpResponse:
    """Delete a webhook, with its secret and what waits for it."""
    row = _find_own(request, pk)
    with transaction.atomic():
        audit.note(request.user, "deleted", row)
        row.delete()
    messages.success(request, f"The {row} is deleted.")
    return redirect("notification_choices")


def _find_own(request: Request, pk: int) -> Webhook:
    return get_object_or_404(Webhook.objects.select_related("owner"), pk=pk, owner=request.user)


def _find_test(row: Webhook, now: datetime) -> Literal["", "on its way", "late"]:
    """Return what has become of the test that was asked for last; "" if it is over."""
    tests = row.deliveries.filter(kind=TEST_KIND)
    open_ones = tests.filter(message__sent_at=None, message__given_up_at=None)
    last = open_ones.aggregate(last=Max("changed_at"))["last"]
    if last is None:
        return ""
    return "late" if now - last > LONGEST_TEST else "on its way"


def _require_webhooks() -> None:
    if NotificationWay.WEBHOOK not in list_open_ways():
        raise Http404


@sensitive_variables("secret")
def _lead_to_secret(request: Request, row: Webhook, secret: Secret) -> HttpResponse:
    """Lead to the only page with a secret; as of all pages, nobody keeps a copy of it."""
    request.session[SESSION_NAME.format(row.pk)] = secret.sealed()
    return redirect("webhook_secret", row.pk)
