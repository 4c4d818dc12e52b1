"""The form in which people choose what they are told, and how."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db import transaction

from dashboard.form_styles import Styled
from experiments.models import NotificationChoices, NotificationKind, NotificationWay
from experiments.models.notification import list_kinds
from experiments.notifications import drop_unwanted, list_open_ways


class ChoicesForm(Styled, forms.Form):
    """A check box for each kind and way."""

    def __init__(self, choices: NotificationChoices, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.choices = choices
        has_mail = NotificationWay.EMAIL in list_open_ways() and bool(choices.person.email)
        self.offered = [NotificationWay.SITE, *([NotificationWay.EMAIL] if has_mail else [])]
        self.kinds = list_kinds(choices.person)
        for kind in self.kinds:
            chosen = choices.list_ways(kind)
            for way in self.offered:
                self.fields[f"{kind}-{way}"] = forms.BooleanField(
                    required=False,
                    initial=way in chosen,
                    label=f"{kind.label}: {way.label}",
                    widget=forms.CheckboxInput(attrs={"aria-label": f"{kind.label}: {way.label}"}),
                )
        self.style_fields()

    @property
    def ways(self) -> list[str]:
        """Return the heads of the columns."""
        return [way.label for way in self.offered]

    @property
    def rows(self) -> list[tuple[str, list[forms.BoundField]]]:
        """Return each kind in words, with its check boxes."""
        return [
            (kind.label, [self[f"{kind}-{way}"] for way in self.offered]) for kind in self.kinds
        ]

    def save(self) -> None:
        """Store what was chosen; what the page did not offer stays as it was."""
        self.choices.ways = {
            kind: [
                way
                for way in NotificationWay
                if self.cleaned_data.get(f"{kind}-{way}", way in self.choices.list_ways(kind))
            ]
            for kind in NotificationKind
        }
        with transaction.atomic():
            self.choices.save()
            drop_unwanted(self.choices)
