"""The form that decides who can view a row."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import Model

from dashboard.form_styles import Styled
from experiments.access import audit
from experiments.access.own_columns import OwnColumns
from experiments.access.visibility_fields import VisibilityFields
from experiments.execution import moves
from experiments.models import Experiment, User


class VisibilityForm(OwnColumns, VisibilityFields, Styled, forms.ModelForm):  # type: ignore[type-arg]
    """The visibility of a row, and the groups that it means."""

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.offer_groups_of(user)


def make_visibility_form(model: type[Model]) -> Any:
    """Return the form for rows of `model`, which has a `visibility` and `groups`."""
    return forms.modelform_factory(
        model,
        form=VisibilityForm,
        fields=("visibility", "groups"),
        widgets={"visibility": forms.RadioSelect, "groups": forms.CheckboxSelectMultiple},
    )


def save_visibility(form: Any, by: User) -> None:
    """Save a valid form, with entries of the audit log and of the experiment's events."""
    row = form.instance
    with audit.log_change(by, row):
        form.save()
        if isinstance(row, Experiment):
            moves.record_event(row, "visibility changed", why=row.visibility_text, by=by)
