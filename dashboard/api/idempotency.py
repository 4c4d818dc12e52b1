"""Requests that are done once, however often they come: by the header Idempotency-Key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from http import HTTPStatus
from typing import Any, TypeVar

from django.db import transaction
from django.http import HttpResponse, JsonResponse
from django.utils import timezone
from django.utils.crypto import salted_hmac
from ninja.operation import Operation
from ninja.utils import contribute_operation_callback

from dashboard.api.problems import Problem
from dashboard.api.requests import ApiRequest
from dashboard.api.strict_requests import FORM
from experiments.models import AnsweredRequest
from experiments.models.answered_request import KEPT, LONGEST_KEY
from experiments.models.database_locks import try_lock

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
BUSY = (
    "A request with this Idempotency-Key is being done at this moment: ask again in some seconds."
)
OTHER = (
    "This Idempotency-Key was used for another request within the last day: each request needs a "
    "key of its own."
)
WRONG = f"An Idempotency-Key has 1 to {LONGEST_KEY} printable ASCII characters."
KEPT_CONTENT = "kept_content"
"""The attribute of an answer with what is kept in place of its content."""
DOCUMENTED = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "A random text of yours. The same request with it, within 24 hours, is answered "
    "the same and not done again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY},
}
View = TypeVar("View", bound=Callable[..., Any])


def idempotent(view: View) -> View:
    """Have a route of the API done once for each Idempotency-Key; it stands below `@router.post`.

    What the route stores and the answer are one transaction: after a crash in the middle neither is
    there, and the request may come again. Only answers of success are kept.
    """
    contribute_operation_callback(view, _make_idempotent)
    return view


def _make_idempotent(operation: Operation) -> None:
    operation.view_func = _wrap(operation.view_func)
    extra = operation.openapi_extra = dict(operation.openapi_extra or {})
    extra["parameters"] = [*extra.get("parameters", []), DOCUMENTED]


def _wrap(view: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(view)
    def checked(request: ApiRequest, **values: Any) -> Any:
        key = request.headers.get(HEADER)
        if key is None:
            return view(request, **values)
        if not (0 < len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()):
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, WRONG)
        with try_lock(f"tare: request {request.user.pk} {key}") as is_held:
            if not is_held:
                raise Problem(HTTPStatus.CONFLICT, BUSY, headers={"Retry-After": "2"})
            return _do_once(request, key, lambda: make_response(view(request, **values)))

    return checked


def send_secret(content: Mapping[str, Any], secret: str, status: HTTPStatus) -> HttpResponse:
    """Return an answer with a secret, which is sent once: what is kept of it has null there."""
    answer = JsonResponse(content, status=status)
    answer["Cache-Control"] = "no-store"
    kept = JsonResponse({**content, secret: None}).content
    setattr(answer, KEPT_CONTENT, kept)
    return answer


def make_response(result: Any) -> HttpResponse:
    """Return the response of what a route has returned: one, a schema, or a status and a schema."""
    if isinstance(result, HttpResponse):
        return result
    status, content = result if isinstance(result, tuple) else (HTTPStatus.OK, result)
    if content is None:
        return HttpResponse(status=status)
    return JsonResponse(content.model_dump(mode="json"), status=status)


def _do_once(request: ApiRequest, key: str, work: Callable[[], HttpResponse]) -> HttpResponse:
    fingerprint = _compute_fingerprint(request)
    own = AnsweredRequest.objects.filter(owner=request.user)
    own.filter(answered_at__lt=timezone.now() - KEPT).delete()
    if stored := own.filter(key=key).first():
        if stored.fingerprint != fingerprint:
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, OTHER)
        return HttpResponse(
            bytes(stored.content),
            status=stored.status,
            content_type=stored.content_type,
            headers={REPLAYED: "true"},
        )
    with transaction.atomic():
        answer = work()
        if answer.status_code < HTTPStatus.BAD_REQUEST:
            AnsweredRequest.objects.create(
                owner=request.user,
                key=key,
                fingerprint=fingerprint,
                status=answer.status_code,
                content_type=answer["Content-Type"],
                content=getattr(answer, KEPT_CONTENT, answer.content),
            )
    return answer


def _compute_fingerprint(request: ApiRequest) -> str:
    """Return an HMAC of method, address and content; of uploads, of all their parts.

    A content may have a password, which nobody can guess from the row without the site's key.
    """
    start = f"{request.method} {request.get_full_path()}\n"
    digest = salted_hmac("tare: answered request", start, algorithm="sha256")
    if request.content_type != FORM:
        digest.update(request.body)
        return digest.hexdigest()
    # Not its bytes: programs put another random text between the parts each time.
    for name, texts in sorted(request.POST.lists()):
        digest.update(repr((name, texts)).encode())
    for name, files in sorted(request.FILES.lists()):
        for file in files:
            digest.update(repr((name, file.name, file.size)).encode())
            for piece in file.chunks():
                digest.update(piece)
            file.seek(0)  # the route reads it next
    return digest.hexdigest()
