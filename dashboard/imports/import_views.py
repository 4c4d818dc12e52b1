"""The page that makes an experiment from logs of others."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect

from dashboard.access.rights import require_maker_of
from dashboard.imports.import_forms import FAILURES_SHOWN, ImportForm
from dashboard.typed_requests import Request
from dashboard.uploads import was_too_large
from experiments.imports import ImportProblem
from experiments.imports.imported_runs import AlreadyImported
from experiments.models import Experiment


@require_maker_of(Experiment)
@require_http_methods(["GET", "HEAD", "POST"])
def logs(request: Request) -> HttpResponse:
    """Show what is in an archive, and store it when asked to; nothing is kept in between."""
    context: dict[str, Any] = {"form": ImportForm(), "failures_shown": FAILURES_SHOWN}
    if request.method != "POST":
        return render(request, "imports/form.html", context)
    form = ImportForm(request.POST, request.FILES, too_large=was_too_large(request))
    context["form"] = form
    valid = form.is_valid()
    tried = request.POST.get("action") == "import"
    if tried or request.POST.get("attempted"):
        context |= {"refused": "Not imported", "focus_summary": tried}
    else:
        form.forgive_what_is_missing()
    if tried and valid:
        try:
            stored = form.store(request.user)
        except AlreadyImported as refusal:
            context["earlier_import"] = refusal.experiment
        except ImportProblem as problem:
            form.add_error("archive", str(problem))
        else:
            address = stored.get_absolute_url()
            return HttpResponseClientRedirect(address) if request.htmx else redirect(address)
    fragment = "#contents" if request.htmx else ""
    return render(request, f"imports/form.html{fragment}", context)
