"""The form of a workload, with a field for each parameter of its kind."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from django import forms
from django.db import transaction
from django.forms import BoundField

from dashboard.catalogue import row_changes
from dashboard.form_styles import Styled
from dashboard.typed_requests import Request
from experiments.access.own_columns import OwnColumns
from experiments.access.visibility_fields import VisibilityFields
from experiments.models import DataSet, User, Workload
from experiments.planning.free_names import find_free_name
from experiments.planning.frozen_data import DATA_PATH, FOLDER, can_read_data, reads_folder
from experiments.planning.variants import lock_workloads, refresh_variants
from experiments.planning.workload_names import follow_parameters
from experiments.planning.workloads import (
    describe_limits,
    format_value,
    make_label,
    why_not_edit,
)
from runners.workloads import WORKLOADS, Parameter, ParameterError
from runners.workloads.parameters import join_arguments

REST = "Parameters"
"""The heading of parameters that name no group."""


@dataclass(frozen=True)
class Group:
    """Fields of parameters under one heading."""

    title: str
    fields: list[BoundField]


class WorkloadForm(OwnColumns, VisibilityFields, Styled, forms.ModelForm):  # type: ignore[type-arg]
    """The form of a workload of one kind, with a field for each of the kind's parameters.

    A kind whose parameters need more than a field each has a subclass of this in `FORMS`, with a
    `body` of its own.
    """

    body = "planning/workload_fields.html"
    """The template of what lies between the name and the time limit."""
    parameters_before: dict[str, Any] | None = None
    """What a page has offered; None for the API, whose names are those that were sent."""

    class Meta:
        model = Workload
        fields = (
            *("name", "data_set", "data_proof", "time_limit_seconds", "visibility", "groups"),
        )
        widgets: ClassVar = {"groups": forms.CheckboxSelectMultiple}
        labels: ClassVar = {
            "time_limit_seconds": "Time limit",
            "data_proof": "Proof before each job",
        }

    def __init__(self, *args: Any, kind: str, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.offer_groups_of(user)
        self.kind = WORKLOADS[kind]
        self.fields["time_limit_seconds"].unit = "s"  # type: ignore[attr-defined]
        self.offer_data_sets(user)
        self.add_fields(self.instance.parameters)
        self.style_fields()

    @classmethod
    def begin(cls, request: Request, row: Workload, kind: str) -> WorkloadForm:
        """Return the form for a request: as it is, or with what was sent."""
        sent = (request.POST, request.FILES) if request.method == "POST" else ()
        form = cls(*sent, instance=row, kind=kind, user=request.user)
        form.parameters_before = row.parameters
        return form

    def add_fields(self, parameters: dict[str, Any]) -> None:
        """Add a field for each parameter, filled in with the workload's value."""
        for parameter in self.kind.parameters:
            value = parameters.get(parameter.name, parameter.default)
            self.fields[parameter.name] = make_parameter_field(parameter, value)

    def offer_data_sets(self, user: User) -> None:
        """Offer the data sets that `user` sees to kinds that can read one; to others nothing."""
        if not can_read_data(self.kind.kind):
            del self.fields["data_set"], self.fields["data_proof"]
            return
        field: Any = self.fields["data_set"]
        field.queryset = DataSet.objects.visible_to(user) | DataSet.objects.filter(
            pk=self.instance.data_set_id
        )
        field.empty_label = "none"
        field.help_text = (
            "Of the catalogue. An empty data directory below then means its path."
            if reads_folder(self.kind.kind)
            else "Of the catalogue. {data} in the command and the variable TARE_DATA are its path."
        )
        self.fields["data_proof"].required = False

    @property
    def parameter_groups(self) -> list[Group]:
        """Return the fields of the parameters, in the order of the schema, by heading."""
        fields_by_title: dict[str, list[BoundField]] = {}
        for parameter in self.kind.parameters:
            fields_by_title.setdefault(parameter.group or REST, []).append(self[parameter.name])
        return [Group(title, fields) for title, fields in fields_by_title.items()]

    def parameters_from(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters for the schema to validate, without those left empty."""
        names = [parameter.name for parameter in self.kind.parameters]
        return {name: cleaned[name] for name in names if cleaned.get(name) not in (None, "")}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("data_set") and reads_folder(self.kind.kind) and not cleaned.get(FOLDER):
            cleaned[FOLDER] = DATA_PATH
        if "data_proof" in self.fields and not cleaned.get("data_proof"):
            cleaned["data_proof"] = Workload.DataProof.SIZES_AND_TIMES
        try:
            self.parameters = self.kind.clean(self.parameters_from(cleaned))
            self._rename(cleaned)
        except ParameterError as error:
            for name, message in error.messages.items():
                field = name if name in self.fields else None
                sentence = (
                    f"{self.fields[name].label} {message}." if field else f"{name} {message}."
                )
                self.add_error(field, sentence)
        return cleaned

    def _rename(self, cleaned: dict[str, Any]) -> None:
        """Have a name that nobody has typed follow the network and the batch that it names."""
        offered = self.initial.get("name", "")
        if self.parameters_before is None or cleaned.get("name") != offered:
            return
        name = follow_parameters(offered, self.parameters_before, self.parameters)
        if name != offered:
            others = Workload.objects.exclude(pk=self.instance.pk)
            cleaned["name"] = find_free_name(name, among=others)

    def save(self, commit: bool = True) -> Workload:
        self.instance.kind = self.kind.kind
        self.instance.parameters = self.parameters
        workload: Workload = super().save(commit)
        if commit:
            refresh_variants(workload)
        return workload


class NotEditable(Exception):
    """The workload stays as it is; the message says why."""


def store_workload(form: WorkloadForm, by: User) -> Workload:
    """Save the workload of a valid form, with its audit entry. Raises NotEditable.

    A workload that an experiment was launched with, since the form was shown, stays as it is.
    """
    row: Workload = form.instance
    with transaction.atomic():
        if row.pk:
            lock_workloads([row.pk])
            if problem := why_not_edit(row):
                raise NotEditable(problem)
        row_changes.store(form, by)
    return row


FORMS: dict[str, type[WorkloadForm]] = {}
"""The kinds that have a form of their own."""


def choose_form(kind: str) -> type[WorkloadForm]:
    """Return the form for workloads of this kind."""
    return FORMS.get(kind, WorkloadForm)


def make_parameter_field(parameter: Parameter, value: Any) -> forms.Field:
    """Return a text field, so that the workload and not the browser reports what is wrong."""
    field = _field(parameter, value)
    field.unit = parameter.unit  # type: ignore[attr-defined]
    if parameter.when:
        other, values = parameter.when
        field.when = other  # type: ignore[attr-defined]
        field.when_values = json.dumps(list(values))  # type: ignore[attr-defined]
    return field


def _field(parameter: Parameter, value: Any) -> forms.Field:
    named: dict[str, Any] = {"label": make_label(parameter), "required": False}
    if parameter.type == "choice":
        choices = [(choice, choice or "none") for choice in parameter.choices]
        return forms.ChoiceField(choices=choices, initial=value, help_text=parameter.help, **named)
    if parameter.type == "flag":
        return forms.BooleanField(initial=value, help_text=parameter.help, **named)
    if parameter.type in ("text", "words"):
        shown = join_arguments(value) if isinstance(value, list) else value
        quoting_help = "Arguments, quoted as in a shell." if parameter.type == "words" else ""
        help_text = " ".join(filter(None, (parameter.help, quoting_help, _if_empty(parameter))))
        return forms.CharField(initial=shown, strip=False, help_text=help_text, **named)
    limits_text = describe_limits(parameter)
    bounds = f"{limits_text[:1].upper()}{limits_text[1:]}; " if limits_text else ""
    return forms.CharField(
        initial=value,
        max_length=40,
        help_text=f"{parameter.help} {bounds}{format_value(parameter.default)} if left empty.",
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
        **named,
    )


def _if_empty(parameter: Parameter) -> str:
    """Return what an empty field means, where that is not simply nothing."""
    return f"If left empty: {format_value(parameter.default)}." if parameter.default else ""


class KindForm(Styled, forms.Form):
    """The first step of a new workload: its kind."""

    kind = forms.ChoiceField(
        choices=lambda: [(name, f"{name}: {kind.label}") for name, kind in WORKLOADS.items()]
    )
