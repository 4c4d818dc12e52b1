"""What a saved view of a list may be, for its page and for the API."""

from __future__ import annotations

from django.http import QueryDict

from dashboard.execution import experiment_listing, run_listing
from experiments.models import SavedView, User

LONGEST_QUERY = 4000
"""As an address writes it, where a letter may take nine characters."""
LONGEST_NAME = 60
NUL = "%00"
"""Refused in every address: a view with it could neither be opened nor deleted."""
KEEP_STATE = {
    SavedView.Page.RUNS: run_listing.keep_state,
    SavedView.Page.EXPERIMENTS: experiment_listing.keep_state,
}


class ViewNotSaved(Exception):
    """Why a view was not saved; `field` is what is wrong, `shown` the list as it was shown."""

    def __init__(self, why: str, field: str, shown: SavedView | None = None) -> None:
        super().__init__(why)
        self.field, self.shown = field, shown


def save_view(
    person: User, name: str, query: str, page: SavedView.Page = SavedView.Page.RUNS
) -> SavedView:
    """Save a state of a list under a name; one of the same name is replaced.

    Raises ViewNotSaved.
    """
    name = " ".join(name.split())[:LONGEST_NAME]
    query = KEEP_STATE[page](QueryDict(query)).urlencode()
    if why := _find_problem(query):
        raise ViewNotSaved(f"{why}.", "query")
    shown = SavedView(page=page, query=query)
    if not name:
        raise ViewNotSaved("a view needs a name.", "name", shown)
    views = SavedView.objects.filter(owner=person, page=page)
    if views.exclude(name=name).count() >= SavedView.MOST:
        why = f"you have {SavedView.MOST} views. Delete one first."
        raise ViewNotSaved(why, "", shown)
    view, _ = views.update_or_create(owner=person, page=page, name=name, defaults={"query": query})
    return view


def _find_problem(query: str) -> str:
    """Return why no address can have this query, or ""."""
    if len(query) > LONGEST_QUERY:
        return "it has too many filters and columns"
    return "a filter holds a character that no address may have" if NUL in query else ""
