"""Requests as our middleware hands them on, for the type checker."""

from __future__ import annotations

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails

from experiments.models import User


class OpenRequest(HttpRequest):
    """From anybody: a page that a referee without an account may read."""

    htmx: HtmxDetails


class Request(OpenRequest):
    """From somebody who has logged in; LoginRequiredMiddleware saw to it."""

    user: User
