"""How pages save and delete rows of the catalogue, with their audit entries, and what they show."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import Model
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.typed_requests import Request
from experiments.access import audit
from experiments.models import User


def store(form: Any, by: User) -> Model:
    """Save the row of a valid form, with its entry in the audit log, and return it."""
    row: Model = form.instance
    with audit.log_change(by, row):
        form.save()
    return row


def save(request: Request, form: Any, message: str) -> HttpResponse:
    """Save the row of a valid form, and show its page with `message`."""
    row = store(form, request.user)
    messages.success(request, message)
    return redirect(audit.name_kind(row), pk=row.pk)


def delete(request: Request, row: Model, why_not: str, message: str) -> HttpResponse:
    """Delete the row, and show its tab of the catalogue with `message`.

    Where something stands against it, show `why_not` on the page of the row instead.
    """
    kind = audit.name_kind(row)
    if why_not:
        messages.error(request, why_not)
        return redirect(kind, pk=row.pk)
    audit.delete(request.user, row)
    messages.success(request, message)
    return redirect(f"{reverse('catalogue')}?tab={kind}s")
