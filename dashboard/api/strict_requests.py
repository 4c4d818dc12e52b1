"""One door for all requests of the API: what no address knows is refused, never ignored."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.views.decorators.http import conditional_page
from ninja.parser import Parser

from dashboard.api.problems import FieldProblem, Problem, send_problem

View = Callable[..., HttpResponseBase]

NUL = "\x00"
MOST_DIGITS, MOST_PROBLEMS = 19, 20
FORM = "multipart/form-data"
NO_LENGTH = "Send the content as a whole, with its Content-Length: it came in pieces (chunked)."
UNREADABLE = "What was sent cannot be read as JSON"


class StrictParser(Parser):
    """JSON as RFC 8259 has it, in UTF-8, without what no database keeps."""

    def parse_body(self, request: HttpRequest) -> dict[str, Any]:
        """Return the values that were sent. Raises Problem 400."""
        try:
            values = json.loads(request.body.decode(), parse_constant=_refuse_constant)
            _refuse_odd_text(values)
        except RecursionError:
            raise Problem(HTTPStatus.BAD_REQUEST, f"{UNREADABLE}: it is nested too deep.") from None
        except ValueError as error:  # of JSON, of UTF-8, of numbers with too many digits
            raise Problem(HTTPStatus.BAD_REQUEST, f"{UNREADABLE}: {error}.") from error
        return values  # type: ignore[no-any-return]


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _refuse_odd_text(values: Any) -> None:
    remaining = [values]
    while remaining:
        value = remaining.pop()
        if isinstance(value, dict):
            remaining += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            remaining += value
        elif isinstance(value, str) and (NUL in value or not _is_unicode(value)):
            raise ValueError("a text has a NUL, or half of a surrogate pair")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def answer_strictly(views: Sequence[View], methods: Mapping[str, Collection[str]]) -> View:
    """Return one view of an address whose methods are answered by several `views`.

    `methods` has those that the address takes, each with the names of its parameters.
    HEAD is answered as GET, as it has an ETag; methods that are not there by 405. Parameters that
    the address does not have are refused, with the name of a similar one.
    """

    @conditional_page
    def answer(request: HttpRequest, **values: Any) -> HttpResponseBase:
        method = request.method or ""
        try:
            _refuse_method(method, methods)
            refuse_unknown_length(request)
            if request.content_type != FORM:  # files have a limit of their own
                refuse_size(request)
            _refuse_unknown_parameters(request.GET, methods[method])
        except Problem as problem:
            return send_problem(problem)
        for view in views:
            response = view(request, **values)
            if response.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
                break
        return response

    def answer_head(request: HttpRequest, **values: Any) -> HttpResponseBase:
        if request.method != "HEAD":
            return answer(request, **values)
        request.method = "GET"
        try:
            response = answer(request, **values)
        finally:
            request.method = "HEAD"  # by which the server leaves the content out
        if isinstance(response, StreamingHttpResponse):
            response.streaming_content = ()  # whose pieces would be computed to be left out
        return response

    return answer_head


def _refuse_method(method: str, methods: Collection[str]) -> None:
    if method not in methods:
        allowed = ", ".join(sorted({*methods, *({"HEAD"} if "GET" in methods else ())}))
        raise Problem(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"This address takes {allowed}, not {method[:20]}.",
            headers={"Allow": allowed},
        )


def refuse_unknown_length(request: HttpRequest) -> None:
    """Django reads no content in pieces of which it does not know the end: it would seem empty."""
    if "Transfer-Encoding" in request.headers and not request.headers.get("Content-Length"):
        raise Problem(HTTPStatus.LENGTH_REQUIRED, NO_LENGTH)


def refuse_size(request: HttpRequest) -> None:
    """Raise Problem 413 where more was sent than is read."""
    most, text = settings.DATA_UPLOAD_MAX_MEMORY_SIZE, request.META.get("CONTENT_LENGTH") or "0"
    size = int(text) if text.isascii() and text.isdigit() and len(text) < MOST_DIGITS else 0
    if size > most:
        detail = f"What was sent has {size:,} bytes; at most {most:,} are read."
        raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)


def _refuse_unknown_parameters(sent: Collection[str], known: Collection[str]) -> None:
    problems = []
    for name in sorted(set(sent) - set(known))[:MOST_PROBLEMS]:
        similar = difflib.get_close_matches(name[:50], known, n=1)
        hint = f" Did you mean “{similar[0]}”?" if similar else ""
        there_are = f" There are: {', '.join(sorted(known))}." if known else ""
        message = f"This address has no parameter “{name[:50]}”.{hint}{there_are}"
        problems.append(FieldProblem(f"query.{name[:50]}", message))
    if problems:
        detail = "Parameters that this address does not have."
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, problems)
