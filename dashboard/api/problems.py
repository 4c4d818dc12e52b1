"""What stands against a request, as problem+json (RFC 9457), in the sentences of the pages."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import DatabaseError, Error, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI, Schema
from ninja.errors import AuthenticationError, HttpError, Throttled, ValidationError

from dashboard.deleted_rows import is_of_deleted
from dashboard.problem_documents import CONTENT_TYPE, describe_problem
from experiments.access.audit import RowDeleted
from experiments.clusters.visit_requests import NotStored

logger = logging.getLogger(__name__)
DELETED = "It was deleted meanwhile, or what it names was. Nothing was changed."
AWAY_SECONDS = 5
AWAY = (
    "The site's database does not answer: try again in some seconds. Send a change again with the "
    "same Idempotency-Key, and it is done once."
)
NOT_FOUND = "It is not there, or you may not view it."
NO_TOKEN = "Log in by a token: “Authorization: Bearer tare_…”. /account/tokens/ makes one."  # noqa: S105


@dataclass(frozen=True)
class FieldProblem:
    """What is wrong at one place of what was sent."""

    field: str
    """Its path, such as "environments.1.image"; "" for the whole."""
    message: str
    line: int | None = None
    column: int | None = None


class Problem(Exception):
    """An answer that is no success. `detail` is a sentence for a person."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        problems: Sequence[FieldProblem] = (),
        headers: dict[str, str] | None = None,
        *,
        type: str = "about:blank",  # noqa: A002  (its name in RFC 9457)
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.type = status, detail, type
        self.problems, self.headers = tuple(problems), headers or {}


class FieldProblemSchema(Schema):
    """What is wrong at one place of what was sent."""

    field: str
    message: str
    line: int | None = None
    column: int | None = None


class ProblemSchema(Schema):
    """An answer that is no success, by RFC 9457."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    problems: list[FieldProblemSchema] = []


def refuse(why_not: str) -> None:
    """Raise Problem 403 with the given reason; "" lets the request pass."""
    if why_not:
        raise Problem(HTTPStatus.FORBIDDEN, why_not)


@contextmanager
def refusals_as_conflicts(*refusals: type[Exception]) -> Iterator[None]:
    """Answer 409 with the sentence of each of these exceptions."""
    try:
        yield
    except refusals as refusal:
        raise Problem(HTTPStatus.CONFLICT, str(refusal)) from refusal


def refuse_now(why_not: str) -> None:
    """Raise Problem 409 with the given reason; "" lets the request pass."""
    if why_not:
        raise Problem(HTTPStatus.CONFLICT, why_not)


def _name_field(place: Sequence[str | int]) -> str:
    """Return the path of a field as it was sent: "authors.0.family", or "query.limit".

    Django-ninja puts the name that our function has for the body before it. Forms name their fields
    without one, and the same field has one name, whoever refuses it.
    """
    of_body = place[2:] if place[:1] == ("body",) else place
    return ".".join(map(str, of_body))


def send_problem(problem: Problem) -> HttpResponse:
    """Return the answer that says what stands against a request."""
    problems = [asdict(one) for one in problem.problems]
    body = describe_problem(problem.status, problem.detail, problems, problem.type)
    return JsonResponse(
        body, status=problem.status, content_type=CONTENT_TYPE, headers=problem.headers
    )


def explain_failed_database(error: Error) -> Problem:
    """Return the problem to send while the database does not answer; the log gets the error."""
    logger.error("A request of the API was not answered: the database failed", exc_info=error)
    headers = {"Retry-After": str(AWAY_SECONDS)}
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, AWAY, headers=headers)


def answer_problems(api: NinjaAPI) -> None:
    """Have the API answer every exception of ours and of its library as problem+json."""

    @api.exception_handler(Problem)
    def answer(request: HttpRequest, error: Problem) -> HttpResponse:
        return send_problem(error)

    @api.exception_handler(Http404)
    def answer_missing(request: HttpRequest, error: Http404) -> HttpResponse:
        return send_problem(Problem(HTTPStatus.NOT_FOUND, NOT_FOUND))

    @api.exception_handler(DatabaseError)
    @api.exception_handler(NotStored)
    @api.exception_handler(RowDeleted)
    def answer_deleted(request: HttpRequest, error: Exception) -> HttpResponse:
        if not is_of_deleted(error):
            raise error
        logger.warning("%s: what it is about was deleted", request.path, exc_info=error)
        return send_problem(Problem(HTTPStatus.CONFLICT, DELETED))

    @api.exception_handler(PermissionDenied)
    def answer_denied(request: HttpRequest, error: PermissionDenied) -> HttpResponse:
        return send_problem(Problem(HTTPStatus.FORBIDDEN, str(error) or "You may not do this."))

    @api.exception_handler(AuthenticationError)
    def answer_unknown(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
        headers = {"WWW-Authenticate": 'Bearer realm="Tare"'}
        return send_problem(Problem(HTTPStatus.UNAUTHORIZED, NO_TOKEN, headers=headers))

    @api.exception_handler(Throttled)
    def answer_throttled(request: HttpRequest, error: Throttled) -> HttpResponse:
        seconds = error.wait or 60
        detail = f"Too many requests: try again in {seconds:.0f} s."
        headers = {"Retry-After": f"{seconds:.0f}"}
        return send_problem(Problem(HTTPStatus.TOO_MANY_REQUESTS, detail, headers=headers))

    @api.exception_handler(HttpError)
    def answer_http(request: HttpRequest, error: HttpError) -> HttpResponse:
        if isinstance(error.__cause__, Problem):  # of the parser
            return send_problem(error.__cause__)
        return send_problem(Problem(HTTPStatus(error.status_code), str(error)))

    @api.exception_handler(RequestDataTooBig)
    def answer_too_big(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
        detail = f"What was sent is too large: {error}"
        return send_problem(Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail))

    @api.exception_handler(OperationalError)
    @api.exception_handler(InterfaceError)
    def answer_away(request: HttpRequest, error: Error) -> HttpResponse:
        return send_problem(explain_failed_database(error))

    @api.exception_handler(ValidationError)
    def answer_invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
        problems = [
            FieldProblem(_name_field(problem["loc"]), _describe_problem(problem))
            for problem in error.errors
        ]
        detail = "What was sent is not what this address takes."
        return send_problem(Problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, problems))


def _describe_problem(problem: Mapping[str, Any]) -> str:
    """Return what the schema refuses as a sentence, without the library's own prefixes."""
    if problem["type"] == "literal_error":
        expected = str(problem.get("ctx", {}).get("expected", ""))
        if choices := [name for name in re.findall("'([^']*)'", expected) if name]:
            return f"This is to be one of {', '.join(choices)}."
    return str(problem["msg"]).removeprefix("Value error, ")
