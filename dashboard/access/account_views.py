"""The page on which people change their own password."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from dashboard.access.log_in import PasswordForm
from dashboard.typed_requests import Request
from experiments.access import audit
from experiments.access.api_token_actions import withdraw_all_tokens
from experiments.models import User


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def password(request: Request) -> HttpResponse:
    """Change one's own password; all other sessions of the person end, and tokens if wanted."""
    person = User.objects.get(pk=request.user.pk)
    form = PasswordForm(person, request.POST or None)
    if request.method == "POST" and form.is_valid():
        with audit.log_change(request.user, person):
            form.save()
        update_session_auth_hash(request, person)
        messages.success(request, "Your password is changed. Other sessions of yours have ended.")
        if form.cleaned_data.get("withdraws_tokens") and (count := withdraw_all_tokens(person)):
            tokens = "token is" if count == 1 else "tokens are"
            messages.success(request, f"{count} API {tokens} withdrawn.")
        return redirect("overview")
    return render(request, "registration/password.html", {"form": form})
