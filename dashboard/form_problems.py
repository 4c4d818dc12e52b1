"""The problems of a form, in one list, each with the field where it can be solved."""

from __future__ import annotations

from dataclasses import dataclass

from django.core.exceptions import NON_FIELD_ERRORS
from django.forms import BaseForm, BoundField
from django.forms.utils import ErrorList


@dataclass(frozen=True)
class Problem:
    """The messages of one field; those of the form as a whole have neither label nor target."""

    messages: list[str]
    label: str = ""
    target: str = ""
    """The id of the element that a link leads to."""


def list_problems(form: BaseForm) -> list[Problem]:
    """Return the form's own problems, then those of its fields in their order."""
    errors = form.errors
    whole = [Problem(_texts(errors[NON_FIELD_ERRORS]))] if NON_FIELD_ERRORS in errors else []
    fields = [form[name] for name in form.fields if name in errors]
    return whole + [
        Problem(_texts(field.errors), str(field.label), _target(field)) for field in fields
    ]


def _texts(errors: ErrorList) -> list[str]:
    return [str(message) for message in errors]


def _target(field: BoundField) -> str:
    """Return the id of what takes the focus: the first choice, where there are several."""
    if field.id_for_label:
        return str(field.id_for_label)
    choices = field.subwidgets
    return str(choices[0].id_for_label) if choices else f"{field.auto_id}_error"
