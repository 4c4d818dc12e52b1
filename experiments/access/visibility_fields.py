"""The two form fields that set who can view a row: the visibility, and the groups."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from experiments.access.permissions import list_groups_to_share_with
from experiments.models import User
from experiments.models.visibility import Visibility

GROUPS_HELP = "Whom “my groups” means. Their people may read it and use it."
NO_GROUP_CHOSEN = "Which groups? Choose one, or another visibility."


class VisibilityFields(forms.BaseModelForm):  # type: ignore[type-arg]
    """A form with `visibility` and `groups`; a field that is left empty changes nothing."""

    def offer_groups_of(self, user: User) -> None:
        """Offer the groups of `user`; without any there is nothing to choose."""
        visibility: Any = self.fields["visibility"]
        groups: Any = self.fields["groups"]
        visibility.label = "Visibility"
        visibility.required = False  # the model knows the usual ones
        groups.help_text = GROUPS_HELP
        groups.queryset = list_groups_to_share_with(user, self.instance)
        if not groups.queryset.exists():
            del self.fields["groups"]
            visibility.choices = [
                choice for choice in visibility.choices if choice[0] != Visibility.GROUPS
            ]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if not cleaned.get("visibility"):
            cleaned.pop("visibility", None)
        elif cleaned["visibility"] == Visibility.GROUPS and not cleaned.get("groups"):
            self.add_error("groups", ValidationError(NO_GROUP_CHOSEN, code="required"))
        return cleaned
