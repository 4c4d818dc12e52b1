"""Published tables: pasted or uploaded, looked at, kept, changed, deleted."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.access.rights import get_editable_table, require_maker_of
from dashboard.comparisons.table_forms import TOO_LARGE, TableForm
from dashboard.typed_requests import Request, read_length
from dashboard.uploads import MOST_RECEIVED, judges_large_requests
from experiments.access import audit
from experiments.comparisons.published_tables import MOST_BYTES
from experiments.models import PublishedTable, User
from experiments.presets.known_tables import KNOWN_TABLES, fill_in

MOST_SENT = MOST_BYTES + 400_000
"""Of a whole request: the table once, and the other fields."""
CHUNK = 1 << 16


# Django's check of the token reads the whole request, so its size is looked at before that.
@judges_large_requests
@csrf_exempt
@require_maker_of(PublishedTable)
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: Request) -> HttpResponse:
    """Show the form of a new published table, and store it; `?known=KEY` fills in a study's."""
    if _too_large(request):
        return _refused(request)
    return _form(request, _fill_in_known(request.GET.get("known", ""), request.user))


def _fill_in_known(key: str, owner: User) -> PublishedTable:
    """Return a new row, with the table of this key if there is one. Http404 for another key."""
    if not key:
        return PublishedTable(owner=owner)
    if key not in KNOWN_TABLES:
        raise Http404(f"No published table is called {key!r}.")
    return fill_in(KNOWN_TABLES[key], owner)


@judges_large_requests
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: Request, pk: int) -> HttpResponse:
    """Show the form of a published table, and store its changes."""
    row = get_editable_table(request, pk)
    return _refused(request) if _too_large(request) else _form(request, row)


@require_POST
def delete(request: Request, pk: int) -> HttpResponse:
    """Delete a published table."""
    row = get_editable_table(request, pk)
    audit.delete(request.user, row)
    messages.info(request, f"Deleted: {row.question}")
    return redirect(f"{reverse('compare')}?tab=tables")


@csrf_protect
def _form(request: Request, row: PublishedTable) -> HttpResponse:
    """Show, preview or keep; whoever has not seen what was read is shown it first."""
    if request.method != "POST":
        return _page(request, TableForm(instance=row, user=request.user))
    form = TableForm(request.POST, request.FILES, instance=row, user=request.user)
    valid = form.is_valid()
    tried = request.POST.get("action") == "save" and "baseline" in request.POST
    if valid and tried:
        with audit.log_change(request.user, row):
            form.save()
        return redirect(row)
    refused = "Not compared" if tried or request.POST.get("attempted") else ""
    return _page(request, form, "#preview" if request.htmx else "", refused)


def _page(request: Request, form: TableForm, fragment: str = "", refused: str = "") -> HttpResponse:
    context: dict[str, Any] = {
        "heading": f"{'Change' if form.instance.pk else 'Compare'} a published table",
        "form": form,
        "known_tables": () if form.instance.pk else KNOWN_TABLES.values(),
        "most_bytes": MOST_BYTES,
        "too_large": TOO_LARGE,
        "refused": refused,
    }
    return render(request, f"comparisons/table_form.html{fragment}", context)


def _too_large(request: HttpRequest) -> bool:
    """Return whether the request is larger than any table; if so, its body is dropped.

    It is still received, up to a limit: a browser that is interrupted shows no answer.
    """
    length = read_length(request)
    if length <= MOST_SENT:
        return False
    while length <= MOST_RECEIVED and request.read(CHUNK):
        pass
    return True


def _refused(request: Request) -> HttpResponse:
    form = TableForm(instance=PublishedTable(owner=request.user), user=request.user)
    form.unreadable = TOO_LARGE
    # htmx shows nothing of an answer with status 413.
    answer = _page(request, form, "#preview" if request.htmx else "")
    answer.status_code = 200 if request.htmx else 413
    return answer
