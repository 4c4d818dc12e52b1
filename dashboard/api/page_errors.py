"""Errors before a request reaches the API, for programs: as problem+json, not as a page."""

from __future__ import annotations

from http import HTTPStatus

from django.http import HttpRequest, HttpResponseBase

from dashboard.middleware import Answer

ROOT = "/api/"
DETAILS = {
    HTTPStatus.BAD_REQUEST: "The request cannot be read: its address, headers and content have to "
    "be UTF-8 without NUL, and its host one of this site.",
    HTTPStatus.NOT_FOUND: "The API has no such address. /api/v1/openapi.json lists all of them.",
    HTTPStatus.CONFLICT: "What this is about has been deleted meanwhile; nothing was changed.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "More was sent than any address of the API takes. Nothing "
    "of it was read.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "The site has failed, which is a mistake in Tare: it stands "
    "in the log of the web server.",
}


def send_errors_to_programs(get_response: Answer) -> Answer:
    """Replace each page of an error below /api/ by problem+json with the same status."""

    def answered(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        is_page = response.get("Content-Type", "").startswith("text/html")
        status = response.status_code
        if not request.path_info.startswith(ROOT) or not is_page or status < HTTPStatus.BAD_REQUEST:
            return response
        from dashboard.api.problems import Problem, send_problem  # with the API's library

        phrase = HTTPStatus(status).phrase
        return send_problem(Problem(HTTPStatus(status), DETAILS.get(HTTPStatus(status), phrase)))

    return answered
