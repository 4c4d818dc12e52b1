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


@require_POST
def save(request: Request) -> HttpResponse:
    """Save the list of runs as it is shown; a view of the same name is replaced."""
    page = SavedView.Page.RUNS
    name = " ".join(read_posted_text(request, "name").split())[:60]
    posted = read_posted_text(request, "query")
    if not name or len(posted) > LONGEST_QUERY:
        why = "it has too many filters and columns" if name else "a view needs a name"
        messages.error(request, f"Not saved: {why}.")
        return redirect("runs")
    query = keep_state(QueryDict(posted)).urlencode()
    views = SavedView.objects.filter(owner=request.user, page=page)
    if views.exclude(name=name).count() >= SavedView.MOST:
        messages.error(request, f"Not saved: you have {SavedView.MOST} views. Delete one first.")
        return redirect("runs")
    view, _ = views.update_or_create(
        owner=request.user, page=page, name=name, defaults={"query": query}
    )
    messages.success(request, f"Saved as {view}.")
    return redirect(view)


@require_POST
def delete(request: Request, pk: int) -> HttpResponse:
    """Delete a view of one's own."""
    view = get_object_or_404(SavedView, pk=pk, owner=request.user)
    view.delete()
    messages.success(request, f"{view} is deleted. The runs are as they were.")
    return redirect(view.page)
