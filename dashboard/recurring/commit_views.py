"""The token with which others ask for a recurrence after a commit, and where they ask."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.db import transaction
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST

from dashboard.access.rights import changeable_row
from dashboard.typed_requests import OpenRequest, Request, read_posted_text
from experiments.access import audit
from experiments.access.permissions import may_add
from experiments.models import Experiment, RecurringExperiment
from experiments.recurring.commit_triggers import (
    find_by_token,
    is_commit,
    make_token,
    request_commit,
    withdraw_token,
)

SCHEME = "Bearer "
SENTENCES = {
    "requested": "The next recurrence was asked for.",
    "known": "This commit was asked for already.",
    "over": "It is over: nothing of it is launched any more.",
}
NOT_ITS_OWNER = "Nothing was asked for: its owner may launch no experiment any more."
STATUS = {"requested": 202, "known": 200, "over": 409}


@require_POST
@never_cache
@sensitive_variables("made", "context")
def token(request: Request, pk: int) -> HttpResponse:
    """Make a token, and show it once; or withdraw the one that there is."""
    row = changeable_row(request, RecurringExperiment, pk)
    if "withdraw" in request.POST:
        with transaction.atomic():
            if withdraw_token(row):
                audit.note(request.user, "token withdrawn", row)
        messages.success(request, "Withdrawn: nobody can ask with it any more.")
        return redirect(row)
    with transaction.atomic():
        made = make_token(row)
        audit.note(request.user, "token made", row)
    context = {"recurring": row, "token": made}
    return render(request, "recurring/token.html", context)


@csrf_exempt
@login_not_required
@require_POST
@never_cache
def trigger(request: OpenRequest) -> JsonResponse:
    """Ask for the next recurrence of the recurring experiment whose token is in the header.

    Without a session: a script asks. What is asked for is launched with the owner's rights.
    """
    header = request.headers.get("Authorization", "")
    row = find_by_token(header.removeprefix(SCHEME).strip()) if header.startswith(SCHEME) else None
    if row is None:
        answer = JsonResponse({"error": "No recurring experiment has this token."}, status=401)
        answer["WWW-Authenticate"] = "Bearer"
        return answer
    commit = read_posted_text(request, "commit")
    if not is_commit(commit):
        text = "Post the field commit: letters, digits and . _ / + - alone, at most 100."
        return JsonResponse({"error": text}, status=400)
    if not may_add(row.owner, Experiment):
        return JsonResponse({"error": NOT_ITS_OWNER}, status=409)
    outcome = request_commit(row.pk, commit)
    content = {"recurring": row.pk, "commit": commit, "state": SENTENCES[outcome]}
    return JsonResponse(content, status=STATUS[outcome])
