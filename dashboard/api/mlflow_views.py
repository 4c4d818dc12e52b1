"""MLflow's REST API, to read alone: the door through which its clients' requests come.

A client's tracking URI is the address of this site with /api/v1/mlflow, its tracking token one of
Tare's. Errors have the form that these clients show.
"""

from __future__ import annotations

from http import HTTPStatus

from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpResponse, JsonResponse

from dashboard.api.limits import EACH_MINUTE
from dashboard.api.mlflow_calls import CALLS, Call, Parameters
from dashboard.api.problems import NO_TOKEN, NOT_FOUND, Problem, explain_failed_database
from dashboard.api.requests import ApiRequest
from dashboard.api.strict_requests import StrictParser, refuse_size, refuse_unknown_length
from dashboard.api.tokens import TokenAuth
from experiments.models.api_token import Scope

ADDRESS = "mlflow/api/2.0/mlflow/<path:name>"
CODES = {
    HTTPStatus.UNAUTHORIZED: "UNAUTHENTICATED",
    HTTPStatus.FORBIDDEN: "PERMISSION_DENIED",
    HTTPStatus.NOT_FOUND: "RESOURCE_DOES_NOT_EXIST",
    HTTPStatus.METHOD_NOT_ALLOWED: "ENDPOINT_NOT_FOUND",
    HTTPStatus.TOO_MANY_REQUESTS: "REQUEST_LIMIT_EXCEEDED",
    HTTPStatus.SERVICE_UNAVAILABLE: "TEMPORARILY_UNAVAILABLE",
}
"""MLflow's words for what is no success; of all else that a value is wrong."""
READ_ONLY = (
    "MLflow's clients read Tare and change nothing: experiments are made and launched by its own "
    "pages, its API and the command tare."
)
ENDS_OF_READING = ("search", "list", "get")
_token = TokenAuth(Scope.READ)


def answer_mlflow(request: ApiRequest, name: str) -> HttpResponse:
    """Answer a call of MLflow's REST API that reads; refuse the others in its form."""
    try:
        refuse_unknown_length(request)
        refuse_size(request)
        _log_in(request)
        call = _find_call(request, name)
        return JsonResponse(call.answer(request, _read_parameters(request, call)))
    except Problem as problem:
        return _send(problem)
    except Http404:
        return _send(Problem(HTTPStatus.NOT_FOUND, NOT_FOUND))
    except RequestDataTooBig as error:
        detail = f"What was sent is too large: {error}"
        return _send(Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail))
    except (OperationalError, InterfaceError) as error:
        return _send(explain_failed_database(error))


def _send(problem: Problem) -> HttpResponse:
    code = CODES.get(problem.status, "INVALID_PARAMETER_VALUE")
    body = {"error_code": code, "message": problem.detail}
    return JsonResponse(body, status=problem.status, headers=problem.headers)


def _log_in(request: ApiRequest) -> None:
    """Name the request's user by its token. Raises Problem."""
    row = _token(request)
    if row is None:
        headers = {"WWW-Authenticate": 'Bearer realm="Tare"'}
        raise Problem(HTTPStatus.UNAUTHORIZED, NO_TOKEN, headers=headers)
    request.auth = row
    if not EACH_MINUTE.allow_request(request):
        seconds = f"{EACH_MINUTE.wait():.0f}"
        detail = f"Too many requests: try again in {seconds} s."
        raise Problem(HTTPStatus.TOO_MANY_REQUESTS, detail, headers={"Retry-After": seconds})


def _find_call(request: ApiRequest, name: str) -> Call:
    call = CALLS.get(name)
    if call and request.method in call.methods:
        return call
    is_reading = request.method == "GET" or name.endswith(ENDS_OF_READING)
    if not is_reading:
        raise Problem(HTTPStatus.FORBIDDEN, READ_ONLY)
    detail = f"Tare does not answer this call of MLflow's API; it answers: {', '.join(CALLS)}."
    raise Problem(HTTPStatus.METHOD_NOT_ALLOWED, detail)


def _read_parameters(request: ApiRequest, call: Call) -> Parameters:
    """Return what was sent. Raises Problem, also for what the call does not take."""
    if request.method == "GET":
        values = dict(request.GET.lists())
    else:
        values = StrictParser().parse_body(request) if request.body else {}
    if not isinstance(values, dict):
        raise Problem(HTTPStatus.BAD_REQUEST, "What was sent is no JSON object.")
    if unknown := sorted(set(values) - set(call.parameters)):
        known = ", ".join(call.parameters)
        detail = f"There is no parameter “{unknown[0][:50]}” here, only: {known}."
        raise Problem(HTTPStatus.BAD_REQUEST, detail)
    return Parameters(values)
