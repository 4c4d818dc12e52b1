"""The form of a study: its name, its question, who can view it, and what is taken out."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.form_styles import Styled, TextArea
from experiments.access.own_columns import OwnColumns
from experiments.access.visibility_fields import VisibilityFields
from experiments.models import Study, User


class StudyForm(OwnColumns, VisibilityFields, Styled, forms.ModelForm):  # type: ignore[type-arg]
    """What a study says of itself."""

    class Meta:
        model = Study
        fields = ("name", "question", "notes", "visibility", "groups")
        widgets = {
            "notes": TextArea(attrs={"rows": 5}),
            "visibility": forms.RadioSelect,
            "groups": forms.CheckboxSelectMultiple,
        }
        help_texts = {
            "question": "What its experiments answer together.",
            "visibility": "Of the study. Its experiments keep theirs: others see those of them "
            "that they may view.",
        }

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.offer_groups_of(user)

    def clean_name(self) -> str:
        return " ".join(self.cleaned_data["name"].split())
