"""An operation: what a cluster does with an image, step by step, with its script and log."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from dashboard.access.rights import require
from dashboard.live_parts import answer_news_only, keep_read, take_read
from dashboard.typed_requests import Request
from experiments.execution.marked_rows import find_operation
from experiments.images import staging
from experiments.models import Operation


def _mark_live_part(request: Request, pk: int) -> str | None:
    row: Any = find_operation(request.user, pk)
    keep_read(request, row)
    return row and str(row.mark)


@require_safe
@answer_news_only(_mark_live_part)
def operation(request: Request, pk: int) -> HttpResponse:
    """Show one operation; its fragment reloads until it has ended."""
    row = take_read(request) or _seen(request, pk)
    context = {"operation": row, "may_cancel": may_cancel(request, row)}
    return render(
        request, "execution/operations/detail.html" + ("#live" if request.htmx else ""), context
    )


@require_POST
def cancel(request: Request, pk: int) -> HttpResponse:
    """Ask for its end; the tick brings it about."""
    row = _seen(request, pk)
    require(staging.why_not_cancel(row, request.user))
    try:
        staging.cancel(row, request.user)
    except staging.NotDone as refusal:
        messages.error(request, str(refusal))
    else:
        is_removal = row.kind == Operation.Kind.CLEAN_UP
        rest = "has removed already is gone" if is_removal else "is half made is removed"
        messages.success(request, f"Asked to end. What {'it ' * is_removal}{rest}.")
    return redirect("operation", pk=pk)


def may_cancel(request: Request, row: Operation) -> bool:
    """Return whether the reader may cancel the operation now."""
    is_under_way = not row.is_final and row.cancel_requested_at is None
    return is_under_way and not staging.why_not_cancel(row, request.user)


def _seen(request: Request, pk: int) -> Operation:
    rows = Operation.objects.visible_to(request.user).select_related(
        "cluster",
        "partition",
        "owner",
        "image",
        "staged_image__image",
        "environment",
        "image_import",
        "data_copy__data_set",
        "data_copy__cluster",
        "code_copy__cluster",
    )
    return get_object_or_404(rows.defer("code_copy__paths"), pk=pk)
