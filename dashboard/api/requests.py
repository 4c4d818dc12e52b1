"""Requests of the API, for the type checker."""

from __future__ import annotations

from django.http import HttpRequest

from experiments.models import ApiToken, User


class ApiRequest(HttpRequest):
    """A request from somebody whom a token or a session has named."""

    user: User
    auth: ApiToken | User
