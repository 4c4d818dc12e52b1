"""The form of a webhook: its address, and the kinds that are posted there."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from dashboard.form_styles import Styled
from experiments.models import User, Webhook
from experiments.models.notification import list_kinds
from experiments.notifications.receivers import NotAllowed, check_address


class WebhookForm(Styled, forms.Form):
    """Address and kinds of a webhook, new or stored."""

    address = forms.CharField(
        label="Address",
        max_length=500,
        widget=forms.URLInput(
            attrs={
                "autocomplete": "off",
                "spellcheck": "false",
                "placeholder": "https://example.org/tare",
            }
        ),
        help_text="Shown to you alone.",
    )
    kinds = forms.MultipleChoiceField(
        label="What is posted", widget=forms.CheckboxSelectMultiple, required=False
    )

    def __init__(self, person: User, *args: Any, webhook: Webhook | None = None) -> None:
        kinds = list_kinds(person)
        initial: dict[str, Any] = {"kinds": kinds}
        if webhook:  # an address that no key opens is typed again
            address = webhook.address.reveal() if webhook.address.opens() else ""
            initial = {"address": address, "kinds": webhook.kinds}
        super().__init__(*args, initial=initial)
        field = self.fields["kinds"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [(str(kind), kind.label) for kind in kinds]

    def clean_address(self) -> str:
        """Return an address to which this site may post. Its name is looked up when it does."""
        address = str(self.cleaned_data["address"])
        try:
            check_address(address)
        except NotAllowed as problem:
            raise ValidationError(str(problem)) from None
        return address
