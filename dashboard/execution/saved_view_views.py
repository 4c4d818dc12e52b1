"""Saving a state of a list under a name, and deleting it again."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from dashboard.execution.run_listing import keep_state
from dashboard.typed_requests import Request, read_posted_text
from experiments.models import SavedView

LONGEST_QUERY = 4000
"""As an address writes it, where a letter may take nine characters."""
NUL = "%00"
"""Refused in every address: a view with it could neither be opened nor deleted."""


@require_POST
def save(request: Request) -> HttpResponse:
    """Save the list of runs as it is shown; a view of the same name is replaced."""
    page = SavedView.Page.RUNS
    name = " ".join(read_posted_text(request, "name").split())[:60]
    query = keep_state(QueryDict(read_posted_text(request, "query"))).urlencode()
    if why := _find_problem(query):
        messages.error(request, f"Not saved: {why}.")
        return redirect("runs")
    shown = SavedView(page=page, query=query)
    if not name:
        messages.error(request, "Not saved: a view needs a name.")
        return redirect(shown)
    views = SavedView.objects.filter(owner=request.user, page=page)
    if views.exclude(name=name).count() >= SavedView.MOST:
        messages.error(request, f"Not saved: you have {SavedView.MOST} views. Delete one first.")
        return redirect(shown)
    view, _ = views.update_or_create(
        owner=request.user, page=page, name=name, defaults={"query": query}
    )
    messages.success(request, f"Saved as {view}.")
    return redirect(view)


def _find_problem(query: str) -> str:
    """Return why no address can have this query, or ""."""
    if len(query) > LONGEST_QUERY:
        return "it has too many filters and columns"
    return "a filter holds a character that no address may have" if NUL in query else ""


@require_POST
def delete(request: Request, pk: int) -> HttpResponse:
    """Delete a view of one's own."""
    view = get_object_or_404(SavedView, pk=pk, owner=request.user)
    view.delete()
    messages.success(request, f"{view} is deleted. The runs are as they were.")
    return redirect(view.page)
