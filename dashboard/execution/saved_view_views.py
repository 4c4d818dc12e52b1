"""Saving a state of a list under a name, and deleting it again."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from dashboard.execution.saved_views import ViewNotSaved, save_view
from dashboard.typed_requests import Request, read_posted_text
from experiments.models import SavedView


@require_POST
def save(request: Request) -> HttpResponse:
    """Save a list as it is shown; a view of the same name is replaced."""
    name, query = (read_posted_text(request, field) for field in ("name", "query"))
    is_of_experiments = request.POST.get("page") == SavedView.Page.EXPERIMENTS
    page = SavedView.Page.EXPERIMENTS if is_of_experiments else SavedView.Page.RUNS
    try:
        view = save_view(request.user, name, query, page)
    except ViewNotSaved as why:
        messages.error(request, f"Not saved: {why}")
        return redirect(why.shown or page)
    messages.success(request, f"Saved as {view}.")
    return redirect(view)


@require_POST
def delete(request: Request, pk: int) -> HttpResponse:
    """Delete a view of one's own."""
    view = get_object_or_404(SavedView, pk=pk, owner=request.user)
    view.delete()
    messages.success(request, f"{view} is deleted. The {view.page} are as they were.")
    return redirect(view.page)
