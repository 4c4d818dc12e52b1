"""Links for people without an account: to create, open and withdraw them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.db import transaction
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from dashboard.access import visitors
from dashboard.access.rights import changeable_row
from dashboard.form_styles import Styled
from dashboard.typed_requests import OpenRequest, Request
from experiments.access import audit
from experiments.execution import moves
from experiments.models import Experiment, PublishedTable, ShareLink
from experiments.models.link import MOST_DAYS, USUAL_DAYS
from experiments.models.visibility import Visibility

KINDS: dict[str, Any] = {"experiment": Experiment, "table": PublishedTable}


class LinkForm(Styled, forms.Form):
    """The form that makes a link: how long it lasts, and whether it hides names."""

    days = forms.IntegerField(
        label="Days until it ends", min_value=1, max_value=MOST_DAYS, initial=USUAL_DAYS
    )
    hides_names = forms.BooleanField(
        label="Hide names of people, machines and paths",
        required=False,
        help_text="On pages and in exports: people, accounts on clusters, clusters, hosts, "
        "partitions, nodes, home and work directories. Each gets a number of its own.",
    )


@login_not_required
@require_GET
def open_link(request: OpenRequest, token: str) -> HttpResponse:
    """Let a browser read what the link opens, and redirect there without the token.

    A wrong token, one that was withdrawn and one that has ended look alike.
    """
    link = ShareLink.objects.opened_by(token)
    if link is None:
        raise Http404
    visitors.remember(request, link)
    answer = redirect(link.row)
    answer["Referrer-Policy"] = "no-referrer"
    return answer


@require_POST
def make(request: Request, kind: str, pk: int) -> HttpResponse:
    """Create another link; everybody with a link can read the row from now on."""
    row = _shared(request, kind, pk)
    form = LinkForm(request.POST)
    if not form.is_valid():
        messages.error(request, f"No link: its days are a number from 1 to {MOST_DAYS}.")
        return redirect("visibility", kind, pk)
    ends = timezone.now() + timedelta(days=form.cleaned_data["days"])
    hides = form.cleaned_data["hides_names"]
    make_link(request, row, expires_at=ends, hides_names=hides)
    messages.success(request, "A new link is below. Whoever has it reads without an account.")
    return redirect("visibility", kind, pk)


def make_link(request: Request, row: Any, **columns: Any) -> ShareLink:
    """Make a link to the row and open the row to everybody with a link, in one transaction."""
    with transaction.atomic():
        if row.visibility != Visibility.PUBLIC:
            row.visibility = Visibility.PUBLIC
            with audit.log_change(request.user, row):
                row.save(update_fields=["visibility"])
        link: ShareLink = ShareLink.objects.make(row, made_by=request.user, **columns)
        _note(request, row, "link made", f"until {link.expires_at:%Y-%m-%d}")
    return link


@require_POST
def withdraw(request: Request, kind: str, pk: int, link_pk: int) -> HttpResponse:
    """End a link at once, also for those who have opened it."""
    row = _shared(request, kind, pk)
    link = get_object_or_404(ShareLink.objects.of(row), pk=link_pk)
    with transaction.atomic():
        if ShareLink.objects.filter(pk=link.pk, withdrawn_at=None).update(
            withdrawn_at=timezone.now()
        ):
            _note(request, row, "link withdrawn", f"made {link.made_at:%Y-%m-%d}")
    messages.success(request, "The link is withdrawn: it opens nothing any more.")
    return redirect("visibility", kind, pk)


def _note(request: Request, row: Any, what: str, why: str) -> None:
    audit.note(request.user, what, row, why=why)
    if isinstance(row, Experiment):
        moves.record_event(row, what, why=why, by=request.user)


def _shared(request: Request, kind: str, pk: int) -> Any:
    if kind not in KINDS:
        raise Http404
    return changeable_row(request, KINDS[kind], pk)


def links_of(request: Request, kind: str, row: Any) -> dict[str, Any]:
    """Return what the page of visibility says about links; nothing where there can be none."""
    if kind not in KINDS or row.pk is None:
        return {}
    rows = ShareLink.objects.of(row).filter(withdrawn_at=None).select_related("made_by")
    links = [
        {
            "link": link,
            "address": _address(request, link),
            "ended": link.expires_at < timezone.now(),
        }
        for link in rows
    ]
    return {"links": links, "link_form": LinkForm(), "may_link": True}


def _address(request: Request, link: ShareLink) -> str:
    """Return the whole address; "" where no key opens the token any more."""
    if not link.token.opens():
        return ""
    return request.build_absolute_uri(reverse("link", args=[link.token.reveal()]))
