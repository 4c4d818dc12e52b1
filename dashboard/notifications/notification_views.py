"""The list of a person's notifications, and the page on which they are chosen."""

from __future__ import annotations

from django.contrib import messages
from django.db.models import Max
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.lists import make_listing
from dashboard.notifications.notification_forms import ChoicesForm
from dashboard.typed_requests import Request, read_posted_text
from experiments.models import NotificationChoices, NotificationWay
from experiments.notifications import (
    count_unread,
    describe_notification,
    find_last_trouble,
    list_notifications,
    list_open_ways,
    mark_read,
    parse_moment,
)

PER_PAGE = 50


@require_safe
def notifications(request: Request) -> HttpResponse:
    """Show the notifications of the person who asks, the last one first."""
    rows = list_notifications(request.user).select_related("experiment", "cluster", "credential")
    # On any page but the first the newest one is not shown, and is marked as read with them.
    newest = rows.aggregate(newest=Max("changed_at"))["newest"] if request.GET else None
    listing = make_listing(
        request,
        rows.defer("experiment__plan"),
        sorts={"changed": "changed_at"},
        default="-changed",
        per_page=PER_PAGE,
    )
    shown = [(row, describe_notification(row)) for row in listing.page]
    unread = sum(row.read_at is None for row, _ in shown)
    if unread != request.user.unread_notifications and listing.page.paginator.num_pages == 1:
        count_unread(request.user)  # a right was taken or given since it was counted
    until = newest or max((row.changed_at for row, _ in shown), default=None)
    context = {"listing": listing, "shown": shown, "until": until}
    return render(request, "notifications/list.html", context)


@require_safe
def notification(request: Request, pk: int) -> HttpResponse:
    """Lead to the page that a notification is about: it is read then."""
    rows = list_notifications(request.user).select_related("experiment", "cluster", "credential")
    row = get_object_or_404(rows, pk=pk)
    mark_read(request.user, pk=row.pk)
    return redirect(describe_notification(row).address)


@require_POST
def read(request: Request) -> HttpResponse:
    """Mark all as read that the page showed, or had shown before."""
    mark_read(request.user, until=parse_moment(read_posted_text(request, "until")))
    return redirect("notifications")


@require_http_methods(["GET", "HEAD", "POST"])
def choices(request: Request) -> HttpResponse:
    """Show and save what a person wants to be told, and how."""
    row = NotificationChoices.objects.filter(pk=request.user.pk).first()
    row = row or NotificationChoices(person=request.user)
    form = ChoicesForm(row, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        form.save()
        messages.success(request, "Saved.")
        return redirect("notification_choices")
    has_mail = NotificationWay.EMAIL in list_open_ways()
    context = {
        "form": form,
        "has_mail": has_mail,
        "has_webhooks": NotificationWay.WEBHOOK in list_open_ways(),
        "webhooks": request.user.webhooks.all(),
        "trouble": find_last_trouble(request.user, NotificationWay.EMAIL) if has_mail else None,
    }
    return render(request, "notifications/choices.html", context)
