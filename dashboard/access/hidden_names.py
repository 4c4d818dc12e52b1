"""Middleware that hides people's names and directories from visitors with an anonymous link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.http import HttpRequest, HttpResponseBase, HttpResponseNotFound

from dashboard.access.visitors import Visitor
from dashboard.middleware import Answer
from experiments.access.anonymity import Anonymity, build_anonymity, write_slug
from experiments.models import ShareLink

Response = TypeVar("Response", bound=HttpResponseBase)
TEXTS = (
    *("text/", "application/json", "application/ld+json", "application/x-tex", "application/xml"),
    "image/svg+xml",
)


def hide_names(get_response: Answer) -> Answer:
    """Hide names and directories in every answer to a visitor with such a link.

    Answers that are not text are not sent: names in them could not be found. Only a view that has
    hidden them before it made a picture says so, by `mark_as_hidden`.
    """

    def answered(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if getattr(response, "names_are_hidden", False):
            return response
        anonymity = find_anonymity(request.user)
        if anonymity is None:
            return response
        content = _content(response)
        kind = response.get("Content-Type", "")
        if content and not kind.startswith(TEXTS):
            return HttpResponseNotFound()
        text = content.decode("utf-8", "surrogateescape")
        hide = anonymity.hide_in_page if kind.startswith("text/html") else anonymity.hide
        _set_content(response, hide(text).encode("utf-8", "surrogateescape"))
        if "Content-Disposition" in response:
            name = _leave_out_questions(response["Content-Disposition"], request.user)
            response["Content-Disposition"] = anonymity.hide(name)
        return response

    return answered


def mark_as_hidden(response: Response) -> Response:
    """Let an answer pass from which its view has hidden all names: a picture, for example."""
    response.names_are_hidden = True  # type: ignore[attr-defined]
    return response


def find_anonymity(user: Any) -> Anonymity | None:
    """Return what is to be hidden from this reader; None where no link of theirs asks for it."""
    links = _list_links(user)
    if not any(link.hides_names for link in links):
        return None
    experiments = [link.experiment for link in links if link.experiment]
    return build_anonymity(experiments, [link.table for link in links if link.table])


def find_hiding(user: Any) -> Callable[[str], str]:
    """Return the function that returns a text without the names that this reader may not see."""
    anonymity = find_anonymity(user)
    return anonymity.hide if anonymity else str


def are_names_hidden(user: Any) -> bool:
    """Return whether a link of this reader asks that names are hidden."""
    return any(link.hides_names for link in _list_links(user))


def _list_links(user: Any) -> list[ShareLink]:
    """Return the valid links that a visitor has opened; none of somebody who has logged in."""
    if not isinstance(user, Visitor):
        return []
    links = ShareLink.objects.valid().filter(pk__in=user.links)
    return list(links.select_related("experiment__cluster", "table"))


def _leave_out_questions(file_name: str, user: Any) -> str:
    """Return a header's file name without the questions of what this reader's links open."""
    for link in _list_links(user):
        if slug := write_slug(link.row.question):
            file_name = file_name.replace(f"-{slug}", "")
    return file_name


def _content(response: Any) -> bytes:
    content: bytes
    content = b"".join(response.streaming_content) if response.streaming else response.content
    return content


def _set_content(response: Any, content: bytes) -> None:
    if response.streaming:
        response.streaming_content = [content]
    else:
        response.content = content
