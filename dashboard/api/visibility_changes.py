"""Who may view a row, changed by the API with the form of the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction
from ninja import Field

from dashboard.access.visibility_forms import make_visibility_form, save_visibility
from dashboard.api.form_bodies import RowKey, StrictBody, require_offered_groups, require_valid
from dashboard.api.requests import ApiRequest
from experiments.models.visibility import Visibility

NAMES = ("visibility", "groups")


class VisibilityChange(StrictBody):
    """Who is to view a row; what is not sent stays."""

    visibility: Visibility | None = None
    groups: list[RowKey] | None = Field(None, description="Those who can view it: their ids.")

    @property
    def changes_visibility(self) -> bool:
        return self.visibility is not None or self.groups is not None

    def list_others(self) -> dict[str, Any]:
        """Return what was sent beside the visibility, by its names."""
        return self.model_dump(mode="json", exclude_unset=True, exclude=set(NAMES))


def choose_visibility(row: Any, change: VisibilityChange) -> dict[str, Any]:
    """Return `visibility` and `groups` for a form: what was sent, or what the row has."""
    groups = change.groups
    if groups is None:
        groups = list(row.groups.values_list("pk", flat=True)) if row.pk else []
    visibility = row.visibility if change.visibility is None else change.visibility
    return {"visibility": visibility, "groups": groups}


def fill_in_visibility(request: ApiRequest, row: Any, change: VisibilityChange) -> Any:
    """Return the form of a row's visibility. Raises Problem where one has no groups."""
    model = type(row)
    # A row of its own: a form that is refused has changed its instance.
    form = make_visibility_form(model)(
        choose_visibility(row, change),
        instance=model._default_manager.get(pk=row.pk),
        user=request.user,
    )
    require_offered_groups(form, change.groups)
    return form


def change_row(
    request: ApiRequest,
    row: Any,
    change: VisibilityChange,
    change_others: Callable[[dict[str, Any]], object],
) -> None:
    """Store what was sent: all of it, or nothing.

    `change_others` stores what is not the visibility, by its names; without any it is not called,
    as some rows are held by experiments and may be shown to others all the same.
    """
    forms = [fill_in_visibility(request, row, change)] if change.changes_visibility else []
    require_valid(*forms)
    with transaction.atomic():
        if others := change.list_others():
            change_others(others)
        for form in forms:
            save_visibility(form, request.user)
