"""The page on which people state their ORCID, and save the token with which they deposit."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.publishing.citation_forms import OrcidForm, TokenForm
from dashboard.typed_requests import Request
from experiments import deposits
from experiments.access import audit
from experiments.encryption import Secret
from experiments.models import DepositToken, User


@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_post_parameters("token")
@sensitive_variables("token_form")
def publishing(request: Request) -> HttpResponse:
    """Show one's ORCID and whether there is a token, and save what is changed of both."""
    is_token = request.method == "POST" and "token" in request.POST
    is_orcid = request.method == "POST" and not is_token
    orcid_form = OrcidForm(
        request.POST if is_orcid else None, initial={"orcid": request.user.orcid}
    )
    token_form = TokenForm(request.POST if is_token else None)
    if is_orcid and orcid_form.is_valid():
        person = User.objects.get(pk=request.user.pk)
        person.orcid = orcid_form.cleaned_data["orcid"]
        with audit.log_change(request.user, person):
            person.save(update_fields=["orcid"])
        messages.success(request, "Saved.")
        return redirect("publishing")
    if is_token and deposits.is_offered() and token_form.is_valid():
        _save_token(request.user, Secret(token_form.cleaned_data["token"]))
        messages.success(request, "Saved.")
        return redirect("publishing")
    token = DepositToken.objects.filter(owner=request.user).first()
    context = {
        "orcid_form": orcid_form,
        "token_form": token_form,
        "token": token,
        "service": deposits.name_service() if deposits.is_offered() else "",
        "is_for_another": bool(token and token.service != settings.DEPOSIT_ADDRESS),
        "is_closed": bool(token and not token.token.opens()),
        "there": deposits.name_service(token.service) if token else "",
    }
    return render(request, "publishing/account.html", context)


@require_POST
def delete_token(request: Request) -> HttpResponse:
    """Delete one's token."""
    with transaction.atomic():
        row = DepositToken.objects.select_for_update().filter(owner=request.user).first()
        if row:
            audit.delete(request.user, row)
            messages.success(request, "The token is deleted here. Withdraw it at the service, too.")
    return redirect("publishing")


@sensitive_variables("secret")
def _save_token(person: User, secret: Secret) -> None:
    """Save a token for the service that this site deposits at, in place of one before."""
    audit.keep(
        person,
        DepositToken,
        why="",
        defaults={"service": settings.DEPOSIT_ADDRESS, "token": secret},
        owner=person,
    )
