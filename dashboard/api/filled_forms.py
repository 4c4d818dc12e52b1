"""Forms of pages, filled in with JSON as a person would: what is not sent stays as it is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

from django.forms import BaseForm
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict
from django.views.decorators.debug import sensitive_variables
from pydantic import AfterValidator

from dashboard.api.form_bodies import (
    INVALID,
    NO_GROUPS,
    describe_unknown_name,
    list_form_problems,
    require_valid,
)
from dashboard.api.problems import FieldProblem, Problem

Form = TypeVar("Form", bound=BaseForm)
Made = TypeVar("Made")

WITHOUT_FIELD = {
    "groups": NO_GROUPS,
    "setup_lines": "You may not write shell lines for this cluster: those who may change it can.",
    "data_set": "This kind of workload reads no data set.",
    "data_proof": "This kind of workload reads no data set.",
}
"""Why a form has no such field for this person or kind."""


def _is_one_line(text: str) -> str:
    if len(text.splitlines()) > 1 or text != text.strip():
        raise ValueError("it is one line, without blanks around it")
    return text


Line = Annotated[str, AfterValidator(_is_one_line)]
"""A text that a form has as one line among others."""


@sensitive_variables()
def fill_in(
    make: Callable[..., Form],
    values: Mapping[str, Any],
    files: MultiValueDict[str, Any] | None = None,
) -> Form:
    """Return the form of a page with `values` in its fields, and in the others what it shows.

    `make` returns the form: without arguments as the page shows it first, else with the data and
    files that a browser sends. Raises Problem 422 for names that the form does not have.
    """
    shown = make()
    refuse_unknown_names(values, shown.fields)
    data = QueryDict(mutable=True)
    for name, field in shown.fields.items():
        value = field.prepare_value(values[name]) if name in values else shown[name].value()
        _put(data, shown.add_prefix(name), value)
    return make(data, files or MultiValueDict())


def _put(data: QueryDict, name: str, value: Any) -> None:
    """Store a value as a browser sends it: nothing for a box that is not ticked."""
    if isinstance(value, list | tuple | set):
        data.setlist(name, [str(item) for item in value])
    elif value is True:
        data[name] = "on"
    elif value is not False:
        data[name] = "" if value is None else str(value)


def refuse_unknown_names(
    values: Mapping[str, Any], known: Mapping[str, Any], place: str = ""
) -> None:
    """Raise Problem 422 with each name that is not known, and the nearest one that is."""
    problems = []
    for name in values.keys() - known.keys():
        reason = "" if place else WITHOUT_FIELD.get(name, "")
        message = reason or describe_unknown_name(str(name), known)
        problems.append(FieldProblem(f"{place}{str(name)[:50]}", message))
    if problems:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, sorted(problems, key=str))


def do_valid(
    form: Form,
    act: Callable[[Form], Made | None],
    *,
    refused: HTTPStatus = HTTPStatus.CONFLICT,
) -> Made:
    """Return what a valid form makes. Raises Problem 422 with its errors.

    `act` checks the form, and writes into its errors why what it asks for is not done: that is
    answered with the status `refused`.
    """
    require_valid(form)
    made = act(form)
    if made is None:
        problems = list_form_problems(form)
        raise Problem(refused, " ".join(row.message for row in problems), problems)
    return made
