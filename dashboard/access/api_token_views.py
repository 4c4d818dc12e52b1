"""A person's own tokens for the API: made, shown once, withdrawn."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dashboard.form_styles import Styled
from dashboard.typed_requests import Request
from experiments.access import audit
from experiments.encryption import Secret
from experiments.models import ApiToken
from experiments.models.api_token import MOST_DAYS, USUAL_DAYS, Scope, list_usual_scopes, make_token

SESSION_NAME = "made for token {}"
"""In the session, encrypted, until the page that shows it is fetched."""
MOST_TOKENS = 50


class TokenForm(Styled, forms.Form):
    """What a new token is for."""

    name = forms.CharField(max_length=100, help_text="Where it is used, such as: nightly job.")
    scopes = forms.MultipleChoiceField(
        label="May",
        choices=Scope.choices,
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


@require_http_methods(["GET", "POST"])
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
    labels = {str(scope): scope.label for scope in Scope}
    rows = [
        (row, [labels.get(name, name) for name in row.scopes], row.expires_at <= timezone.now())
        for row in ApiToken.objects.filter(owner=request.user, withdrawn_at=None)
    ]
    return render(request, "access/api_tokens.html", {"form": form, "rows": rows})


@require_GET
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
    """Withdraw a token: it opens nothing any more."""
    row = get_object_or_404(ApiToken, pk=pk, owner=request.user)
    with transaction.atomic():
        if ApiToken.objects.filter(pk=pk, withdrawn_at=None).update(withdrawn_at=timezone.now()):
            audit.note(request.user, "withdrawn", row)
    messages.success(request, f"The {row} is withdrawn.")
    return redirect("api_tokens")
