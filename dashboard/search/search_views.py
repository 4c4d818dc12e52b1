"""The search: its page, and what the dialog shows while somebody types."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.search.site_search import limit_groups, read_search_text, search_site
from dashboard.typed_requests import Request

OF_A_KIND, OF_A_KIND_AT_ONCE = 20, 5


@require_safe
def search(request: Request) -> HttpResponse:
    """Show what has the words of a text, as a page."""
    text = read_search_text(request.GET.get("q", ""))
    groups = search_site(request.user, text, OF_A_KIND)
    return render(request, "search/page.html", {"search_words": text, "groups": groups})


@require_safe
def search_results(request: Request) -> HttpResponse:
    """Send the options of the dialog's list."""
    text = read_search_text(request.GET.get("q", ""))
    groups = limit_groups(search_site(request.user, text, OF_A_KIND_AT_ONCE))
    return render(request, "search/options.html", {"search_words": text, "groups": groups})
