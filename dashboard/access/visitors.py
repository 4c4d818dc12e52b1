"""Visitors without an account: their sessions hold the links that they have opened."""

from __future__ import annotations

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponseBase

from dashboard.middleware import Answer
from experiments.models import ShareLink

OPENED = "links"
MOST = 20
"""Links that a browser keeps open at once; the oldest goes."""


class Visitor(AnonymousUser):
    """A visitor with links; what these open is read again at every request."""

    def __init__(self, links: list[int]) -> None:
        super().__init__()
        self.links = links


def remember(request: HttpRequest, link: ShareLink) -> None:
    """Let this browser read what the link opens, as long as the link lasts."""
    others = [key for key in request.session.get(OPENED, []) if key != link.pk]
    request.session[OPENED] = [*others, link.pk][-MOST:]


def recognise_visitors(get_response: Answer) -> Answer:
    """Give people without an account the rights of the links that they have opened."""

    def recognised(request: HttpRequest) -> HttpResponseBase:
        if not request.user.is_authenticated and (links := request.session.get(OPENED)):
            request.user = Visitor(list(links))
        return get_response(request)

    return recognised
