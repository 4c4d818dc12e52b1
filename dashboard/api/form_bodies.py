"""JSON that a form of a page judges: its fields by their names, its errors as problems."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from http import HTTPStatus
from typing import Annotated, Any

from django.forms import BaseForm
from ninja import Field, Schema
from pydantic import ConfigDict, model_validator

from dashboard.api.problems import FieldProblem, Problem

INVALID = "What was sent is not valid."
NO_GROUPS = "You are in no group with which it could be shared."


RowKey = Annotated[int, Field(ge=1, lt=2**63, strict=True)]
"""The number of a row in a body."""


def describe_unknown_name(name: str, known: Collection[str]) -> str:
    """Return the sentence on a field that is not there, with the nearest one that is."""
    similar = difflib.get_close_matches(name[:50], known, n=1)
    hint = f" Did you mean “{similar[0]}”?" if similar else ""
    return f"There is no field “{name[:50]}”.{hint} There are: {', '.join(known)}."


class StrictBody(Schema):
    """A body whose unknown names are refused, with the name of a similar one."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, values: Any) -> Any:
        for name in values if isinstance(values, dict) else ():
            if name not in cls.model_fields:
                raise ValueError(describe_unknown_name(str(name), cls.model_fields))
        return values


def list_form_problems(form: BaseForm) -> list[FieldProblem]:
    """Return the errors of a form, in its own sentences; those of the whole have no field."""
    return [
        FieldProblem("" if name == "__all__" else name, str(message))
        for name, messages in form.errors.items()
        for message in messages
    ]


def require_valid(*forms: BaseForm) -> None:
    """Raise Problem 422 with all errors of these forms."""
    problems = [problem for form in forms for problem in list_form_problems(form)]
    if problems:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)


def require_offered_groups(form: BaseForm, groups: Any) -> None:
    """Raise Problem 422 for groups that were sent where a form offers none: it would drop them."""
    if groups and "groups" not in form.fields:
        problems = [FieldProblem("groups", NO_GROUPS)]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, NO_GROUPS, problems)
