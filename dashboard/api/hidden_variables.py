"""Routes whose variables hold secrets: no report of an error shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.views.decorators.debug import sensitive_variables
from ninja.operation import Operation
from ninja.utils import contribute_operation_callback

View = TypeVar("View", bound=Callable[..., Any])


def hide_variables(view: View) -> View:
    """Hide the variables of a route; it stands below `@router.post`, as `@idempotent` does.

    Django's own decorator cannot: django-ninja reads the types of what it decorates, and would look
    for their names in Django.
    """
    contribute_operation_callback(view, _hide)
    return view


def _hide(operation: Operation) -> None:
    operation.view_func = sensitive_variables()(operation.view_func)
