"""The form of a workload: its fields are those that the workload's own schema declares."""

from __future__ import annotations

import shlex
from typing import Any, ClassVar

from django import forms

from dashboard.forms import Styled
from experiments.models import User, Workload
from experiments.sharing import Sharing
from runners.workloads import WORKLOADS, Parameter, ParameterError


class WorkloadForm(Sharing, Styled, forms.ModelForm):  # type: ignore[type-arg]
    """A workload of one kind: its fields are the kind's own parameters."""

    class Meta:
        model = Workload
        fields = ("name", "time_limit_seconds", "visibility", "groups")
        widgets: ClassVar = {"groups": forms.CheckboxSelectMultiple}
        labels: ClassVar = {"time_limit_seconds": "Time limit"}

    def __init__(self, *args: Any, kind: str, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.share_as(user)
        self.kind = WORKLOADS[kind]
        self.fields["time_limit_seconds"].unit = "s"  # type: ignore[attr-defined]
        for parameter in self.kind.parameters:
            self.fields[parameter.name] = _parameter_field(parameter)
        self.order_fields(["name", *(one.name for one in self.kind.parameters)])
        self.dress()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        names = [parameter.name for parameter in self.kind.parameters]
        given = {name: cleaned[name] for name in names if cleaned.get(name) not in (None, "")}
        try:
            self.parameters = self.kind.clean(given)
        except ParameterError as error:
            for name, message in error.messages.items():
                self.add_error(name, f"{self.fields[name].label} {message}.")
        return cleaned

    def save(self, commit: bool = True) -> Workload:
        self.instance.kind = self.kind.kind
        self.instance.parameters = self.parameters
        workload: Workload = super().save(commit)
        return workload


def _parameter_field(parameter: Parameter) -> forms.Field:
    """A text field, so that what is wrong is said by the workload and not by the browser."""
    label = parameter.label or parameter.name.replace("_", " ").capitalize()
    if parameter.type == "choice":
        choices = [(choice, choice or "none") for choice in parameter.choices]
        return forms.ChoiceField(
            label=label,
            choices=choices,
            initial=parameter.default,
            required=False,
            help_text=parameter.help,
        )
    if parameter.type == "flag":
        return forms.BooleanField(
            label=label, initial=parameter.default, required=False, help_text=parameter.help
        )
    if parameter.type in ("text", "words"):
        default = parameter.default
        shown = shlex.join(default) if isinstance(default, list) else default
        return forms.CharField(
            label=label, initial=shown, required=False, help_text=parameter.help, strip=False
        )
    field = forms.CharField(
        label=label,
        initial=parameter.default,
        required=False,
        max_length=40,
        help_text=f"{parameter.help} From {_grouped(parameter.minimum)} to "
        f"{_grouped(parameter.maximum)}; {parameter.default} if left empty.",
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
    )
    field.unit = parameter.unit  # type: ignore[attr-defined]
    return field


def _grouped(number: float) -> str:
    """Return a limit with narrow spaces between its thousands."""
    return f"{number:,.12g}".replace(",", "\N{NARROW NO-BREAK SPACE}")


class KindForm(Styled, forms.Form):
    """The first step of a new workload."""

    kind = forms.ChoiceField(
        choices=lambda: [(name, f"{name}: {kind.label}") for name, kind in WORKLOADS.items()]
    )
