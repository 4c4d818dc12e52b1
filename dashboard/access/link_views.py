"""Links for people without an account: to create, open and withdraw them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import visitors
from dashboard.access.rights import changeable_row
from dashboard.form_styles import Styled
from dashboard.typed_requests import OpenRequest, Request
from experiments.execution.link_actions import list_links, make_link, withdraw_link
from experiments.models import Experiment, PublishedTable, ShareLink
from experiments.models.link import MOST_DAYS, USUAL_DAYS

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
@require_safe
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
    make_link(row, request.user, expires_at=ends, hides_names=hides)
    messages.success(request, "A new link is below. Everyone who has it reads without an account.")
    return redirect("visibility", kind, pk)


@require_POST
def withdraw(request: Request, kind: str, pk: int, link_pk: int) -> HttpResponse:
    """End a link at once, also for those who have opened it."""
    row = _shared(request, kind, pk)
    link = get_object_or_404(ShareLink.objects.of(row), pk=link_pk)
    withdraw_link(link, row, request.user)
    messages.success(request, "The link is withdrawn: it opens nothing any more.")
    return redirect("visibility", kind, pk)


def _shared(request: Request, kind: str, pk: int) -> Any:
    if kind not in KINDS:
        raise Http404
    return changeable_row(request, KINDS[kind], pk)


def links_of(request: Request, kind: str, row: Any) -> dict[str, Any]:
    """Return what the page of visibility says about links; nothing where there can be none."""
    if kind not in KINDS or row.pk is None:
        return {}
    links = [
        {
            "link": link,
            "address": write_link_address(request, link),
            "ended": link.expires_at < timezone.now(),
        }
        for link in list_links(row)
    ]
    return {"links": links, "link_form": LinkForm(), "may_link": True}


def write_link_address(request: HttpRequest, link: ShareLink) -> str:
    """Return the whole address; "" where no key opens the token any more."""
    if not link.token.opens():
        return ""
    return request.build_absolute_uri(reverse("link", args=[link.token.reveal()]))
