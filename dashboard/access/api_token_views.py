"""A person's own tokens for the API: made, shown once, withdrawn."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.access.rights import require
from dashboard.form_styles import Styled
from dashboard.lists import make_listing
from dashboard.typed_requests import Request
from experiments.access import audit
from experiments.access.api_token_actions import list_tokens, may_see_all_tokens, withdraw_token
from experiments.access.permissions import why_not_see_all_tokens
from experiments.encryption import Secret
from experiments.models import ApiToken
from experiments.models.api_token import MOST_DAYS, USUAL_DAYS, Scope, list_usual_scopes, make_token

SESSION_NAME = "made for token {}"
"""In the session, encrypted, until the page that shows it is fetched."""
MOST_TOKENS = 50
SORTS = {
    "owner": "owner__username",
    "name": "name",
    "made": "made_at",
    "expires": "expires_at",
    "used": "used_at",
}


class TokenForm(Styled, forms.Form):
    """What a new token is for."""

    name = forms.CharField(max_length=100, help_text="Where it is used, such as: nightly job.")
    scopes = forms.MultipleChoiceField(
        label="May",
        choices=[(scope.value, f"{scope.value}: {scope.label}") for scope in Scope],
        initial=list_usual_scopes,
        widget=forms.CheckboxSelectMultiple,
        help_text="Never more than you may yourself.",
    )
    days = forms.IntegerField(
        label="Expires after",
        min_value=1,
        max_value=MOST_DAYS,
        initial=USUAL_DAYS,
        help_text=f"At most {MOST_DAYS} days.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["days"].unit = "days"  # type: ignore[attr-defined]


@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("text", "secret")
def api_tokens(request: Request) -> HttpResponse:
    """List one's tokens; make one, and lead to the page that shows it once."""
    form = TokenForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        if ApiToken.objects.valid().filter(owner=request.user).count() >= MOST_TOKENS:
            form.add_error(None, f"You have {MOST_TOKENS} tokens already: withdraw one first.")
        else:
            expires_at = timezone.now() + timedelta(days=form.cleaned_data["days"])
            name, scopes = form.cleaned_data["name"], form.cleaned_data["scopes"]
            with transaction.atomic():
                row, text = make_token(request.user, name, scopes, expires_at)
                audit.note(request.user, "added", row)
            request.session[SESSION_NAME.format(row.pk)] = Secret(text).sealed()
            return redirect("api_token", row.pk)
    rows = describe_tokens(list_tokens(request.user))
    context = {"form": form, "rows": rows, "may_see_all": may_see_all_tokens(request.user)}
    return render(request, "access/api_tokens.html", context)


def describe_tokens(rows: Iterable[ApiToken]) -> list[tuple[ApiToken, list[str], bool]]:
    """Return each token with its scopes in words, and whether it is expired."""
    labels = {str(scope): scope.label for scope in Scope}
    now = timezone.now()
    return [
        (row, [labels.get(name, name) for name in row.scopes], row.expires_at <= now)
        for row in rows
    ]


@require_safe
def all_api_tokens(request: Request) -> HttpResponse:
    """List everybody's tokens, without their secrets, for site administrators."""
    require(why_not_see_all_tokens(request.user))
    rows = list_tokens(request.user, of_all=True).select_related("owner")
    listing = make_listing(request, rows, sorts=SORTS, default="-used")
    context = {"listing": listing, "rows": describe_tokens(listing.page)}
    return render(request, "access/all_api_tokens.html", context)


@require_safe
@sensitive_variables("sealed", "secret")
def api_token(request: Request, pk: int) -> HttpResponse:
    """Show a token that was just made, once."""
    row = get_object_or_404(ApiToken, pk=pk, owner=request.user)
    secret = Secret(sealed=request.session.pop(SESSION_NAME.format(pk), ""))
    if not secret.sealed() or not secret.opens():
        messages.info(request, "A token is shown once. Where it is lost, make another one.")
        return redirect("api_tokens")
    context = {"row": row, "text": secret.reveal()}
    return render(request, "access/api_token.html", context)


@require_POST
def withdraw_api_token(request: Request, pk: int) -> HttpResponse:
    """Withdraw a token of one's own or, as a site administrator, of anybody."""
    row = get_object_or_404(list_tokens(request.user, of_all=True), pk=pk)
    withdraw_token(row, request.user)
    messages.success(request, f"The {row} is withdrawn.")
    return redirect("api_tokens" if row.owner == request.user else "all_api_tokens")
