"""Pages of the documents: their list, each of them, and their pictures."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import FileResponse, Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from dashboard.docs.contents import list_decisions, list_groups
from dashboard.docs.documents import (
    DECISIONS,
    GLOSSARY,
    PICTURES,
    START,
    find_address,
    map_files,
    map_pictures,
    read_document,
)
from dashboard.docs.section_search import search_sections
from dashboard.typed_requests import OpenRequest

MOST_CHARACTERS = 200
"""Of the words that are searched."""


@login_not_required
@require_safe
def docs(request: OpenRequest) -> HttpResponse:
    """List the documents to everybody, or the sections with some words: they hold no data."""
    text = request.GET.get("q", "")[:MOST_CHARACTERS].strip()
    results = search_sections(text) if text else []
    start = read_document(START)
    context = {"start": start, "groups": list_groups(), "searched": text, "results": results}
    return render(request, "docs/index.html", context)


@login_not_required
@require_safe
def document(request: OpenRequest, name: str) -> HttpResponse:
    """Show a document to everybody."""
    if name in (GLOSSARY, START):
        return redirect(find_address(name))
    if name not in map_files():
        raise Http404
    context = {
        "document": read_document(name),
        "groups": list_groups(),
        "current": DECISIONS if name.startswith(f"{DECISIONS}/") else name,
        "decisions": list_decisions() if name == DECISIONS else (),
    }
    return render(request, "docs/document.html", context)


@login_not_required
@require_safe
def picture(request: OpenRequest, name: str) -> HttpResponseBase:
    """Send a picture of a document."""
    if name not in map_pictures():
        raise Http404
    path = map_pictures()[name]
    return FileResponse(path.open("rb"), content_type=PICTURES[path.suffix])
