"""The form of a preset of one's own: its name, and who may view and use it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db import IntegrityError, transaction

from dashboard.form_styles import Styled
from experiments.access import audit
from experiments.access.own_columns import OwnColumns
from experiments.access.visibility_fields import VisibilityFields
from experiments.models import OwnPreset, User


class OwnPresetForm(OwnColumns, VisibilityFields, Styled, forms.ModelForm):  # type: ignore[type-arg]
    """The name is one's own: two people may each have a preset of it."""

    class Meta:
        model = OwnPreset
        fields = ("name", "visibility", "groups")
        widgets = {"visibility": forms.RadioSelect, "groups": forms.CheckboxSelectMultiple}

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.offer_groups_of(user)

    def clean_name(self) -> str:
        name = " ".join(self.cleaned_data["name"].split())
        own = OwnPreset.objects.filter(owner=self.instance.owner_id).exclude(pk=self.instance.pk)
        if own.filter(name__iexact=name).exists():
            raise forms.ValidationError("There is a preset of this name already: choose another.")
        if self.instance.pk is None and own.count() >= OwnPreset.MOST:
            raise forms.ValidationError(f"You have {OwnPreset.MOST} presets: delete one first.")
        return name


def save_preset(form: OwnPresetForm, by: User) -> bool:
    """Save it; False, with an error at the name, if another request has just taken that."""
    try:
        with transaction.atomic(), audit.log_change(by, form.instance):
            form.save()
    except IntegrityError:
        form.add_error("name", "There is a preset of this name already: choose another.")
        return False
    return True
