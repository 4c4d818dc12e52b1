"""A person's own webhooks: to add, test, change, rotate, switch off and delete them.

A secret is in the answer to the request that made it, and nowhere else.
"""

from __future__ import annotations

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.notifications.webhook_forms import WebhookForm
from dashboard.typed_requests import Request
from experiments.access import audit
from experiments.encryption import Secret
from experiments.models import NotificationWay, Webhook
from experiments.models.database_time import database_now
from experiments.models.notification import TEST_KIND, list_kinds
from experiments.notifications import list_open_ways, webhooks
from experiments.notify import enqueue_deliver


@require_http_methods(["GET", "POST"])
def new(request: Request) -> HttpResponse:
    """Add a webhook, and show its secret once."""
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
            return _show_secret(request, row, secret)
    return render(request, "notifications/new_webhook.html", {"form": form})


@require_http_methods(["GET", "POST"])
def webhook(request: Request, pk: int) -> HttpResponse:
    """Show a webhook with its last answers, and save what is changed."""
    row = _find_own(request, pk)
    form = WebhookForm(
        request.user, request.POST if request.method == "POST" else None, webhook=row
    )
    if request.method == "POST" and form.is_valid():
        # Kinds of a role that was taken away meanwhile are no longer offered, and go.
        if row.address != form.cleaned_data["address"]:  # what failed was another one
            row.failures, row.failing_since, row.retry_at = 0, None, None
        row.address, row.kinds = form.cleaned_data["address"], form.cleaned_data["kinds"]
        with transaction.atomic():
            row.save(update_fields=["address", "kinds", "failures", "failing_since", "retry_at"])
            audit.note(request.user, "changed", row)
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
        "is_testing": row.is_on and _is_testing(row),
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
    """Make another secret, and show it once."""
    row = _find_own(request, pk)
    with transaction.atomic():
        secret = webhooks.rotate_secret(row)
        audit.note(request.user, "secret rotated", row)
    return _show_secret(request, row, secret)


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


def _is_testing(row: Webhook) -> bool:
    """Return whether a test has been asked for that is not over."""
    tests = row.deliveries.filter(kind=TEST_KIND)
    return tests.filter(message__sent_at=None, message__given_up_at=None).exists()


def _require_webhooks() -> None:
    if NotificationWay.WEBHOOK not in list_open_ways():
        raise Http404


@sensitive_variables("secret")
def _show_secret(request: Request, row: Webhook, secret: Secret) -> HttpResponse:
    """Return the only page with a secret; as of all pages, nobody keeps a copy of it."""
    context = {"webhook": row, "secret": secret.reveal()}
    return render(request, "notifications/webhook_secret.html", context)
