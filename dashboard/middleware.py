"""Rules for every request and every answer, so that no view has to repeat them."""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Callable
from contextlib import ExitStack, suppress
from http import HTTPStatus
from typing import cast

from csp.constants import SELF, UNSAFE_INLINE
from django.db import InterfaceError, OperationalError, connection, transaction
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponseBase,
    StreamingHttpResponse,
)
from django.template.loader import render_to_string
from django.utils.cache import patch_cache_control

Answer = Callable[[HttpRequest], HttpResponseBase]

NUL = "\x00"
QUEUES = "/admin/django_rq/"
SHOWN = "X-Shown"
"""The header with the digest of what a live part shows."""
MARK = "X-Mark"
"""The header with the mark of what a live part shows (dashboard/live_parts.py)."""
DIFFERS_ALWAYS = re.compile(rb'(?:name="csrfmiddlewaretoken" value|nonce|data-seen)="[^"]*"')
KEPT_HEADERS = ("HX-Trigger", "X-Seen", MARK)
"""What an answer says beside its content."""


def answer_head(get_response: Answer) -> Answer:
    """Answer HEAD with the status and headers of GET, without the content, and change nothing.

    What a view writes because somebody looks, such as that a notification is read, is rolled back,
    and the tasks that it asks for are not enqueued. No piece of a streamed file is made.
    """

    def answered(request: HttpRequest) -> HttpResponseBase:
        if request.method != "HEAD":
            return get_response(request)
        with ExitStack() as stack:
            with suppress(OperationalError, InterfaceError):  # without it nothing can be changed
                stack.enter_context(transaction.atomic())
            response = get_response(request)
            if connection.in_atomic_block:
                transaction.set_rollback(True)
        response.cookies.clear()  # of sessions that are not stored
        if isinstance(response, StreamingHttpResponse):
            response.streaming_content = ()
        else:
            cast(HttpResponse, response).content = b""  # its Content-Length stays
        return response

    return answered


def refuse_charsets(get_response: Answer) -> Answer:
    """Answer 400 to a request that says its text is not UTF-8: every page here sends UTF-8.

    Some encodings that Python knows decode no text at all, others characters that no text may hold.
    """

    def checked(request: HttpRequest) -> HttpResponseBase:
        if request.encoding and codecs.lookup(request.encoding).name != "utf-8":
            return HttpResponseBadRequest(render_to_string("400.html"))
        return get_response(request)

    return checked


def refuse_nul(get_response: Answer) -> Answer:
    """Answer 400 to a NUL in an address or a cookie: PostgreSQL accepts none in text.

    Forms refuse a NUL in typed text, with a message at the field.
    """

    def checked(request: HttpRequest) -> HttpResponseBase:
        addressed = (request.path_info, *request.GET, *request.COOKIES.values())
        queried = (value for values in request.GET.lists() for value in values[1])
        if any(NUL in text for text in (*addressed, *queried)):
            return HttpResponseBadRequest(render_to_string("400.html"))
        return get_response(request)

    return checked


def widen_policy_for_queues(get_response: Answer) -> Answer:
    """Let django-rq's pages run their own inline scripts, which have no nonce."""
    inline = {name: [SELF, UNSAFE_INLINE] for name in ("script-src", "style-src-elem")}

    def answered(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if request.path_info.startswith(QUEUES):
            response._csp_replace = inline  # type: ignore[attr-defined]
        return response

    return answered


def forbid_storing(get_response: Answer) -> Answer:
    """Forbid browsers and proxies to store a page, and search engines to list it.

    The next person at the machine may be another reader. Static files are answered before this
    and stay in caches.
    """

    def answered(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        patch_cache_control(response, no_store=True, private=True)
        response["X-Robots-Tag"] = "noindex, nofollow"
        return response

    return answered


def leave_unchanged(get_response: Answer) -> Answer:
    """Answer 204 to a live part that asks for itself and would get what it shows already.

    Nothing is sent and nothing is replaced then: what a reader has marked or unfolded stays.
    `static/js/page.js` sends the header back with which it was answered.
    """

    def answered(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        is_part = "HX-Request" in request.headers and request.method in ("GET", "HEAD")
        if not is_part or response.status_code != HTTPStatus.OK or response.streaming:
            return response
        content = DIFFERS_ALWAYS.sub(b"", cast(HttpResponse, response).content)
        digest = hashlib.sha256(content).hexdigest()
        if request.headers.get(SHOWN) == digest:
            kept_headers = {name: response[name] for name in KEPT_HEADERS if name in response}
            return HttpResponse(status=HTTPStatus.NO_CONTENT, headers=kept_headers)
        response[SHOWN] = digest
        return response

    return answered
