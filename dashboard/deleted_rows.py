"""The answer to a request about something that somebody else has deleted meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template.loader import render_to_string

from experiments.access.audit import RowDeleted
from experiments.clusters.visit_requests import NotStored

logger = logging.getLogger(__name__)

DELETED_ROW_MESSAGES = ("did not affect any rows", "is not present in table")
"""How Django says that an update found no row, and PostgreSQL that a referenced one is gone."""


class AnswerDeleted:
    """Answers 409, with a page that says so, whatever view it happens in.

    A view has found the row before: that it is gone now is nobody's mistake, and no error of Tare.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Return the page; None leaves any other error to Django."""
        if request.method in ("GET", "HEAD") or not is_of_deleted(error):
            return None
        logger.warning("%s: what it is about was deleted", request.path, exc_info=error)
        text = render_to_string("409.html", request=request)
        return HttpResponse(text, status=HTTPStatus.CONFLICT)


def is_of_deleted(error: Exception) -> bool:
    """Return whether an error says that what was to be saved is not there any more.

    `DoesNotExist` does not: mistakes that search for what never was raise it, too.
    """
    if isinstance(error, DatabaseError):
        return any(text in str(error) for text in DELETED_ROW_MESSAGES)
    return isinstance(error, NotStored | RowDeleted)
