"""The OpenAPI document: what django-ninja makes of the functions, and what holds for all of them.

Each address answers some errors, whatever its function says: those are written here, once.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cached_property
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation
from ninja.responses import NinjaJSONEncoder

from dashboard.api.problems import ProblemSchema
from dashboard.api.tokens import TokenAuth
from dashboard.problem_documents import CONTENT_TYPE

Json = dict[str, Any]

ERRORS = {
    HTTPStatus.BAD_REQUEST: "The request cannot be read: no UTF-8, a NUL, or no JSON.",
    HTTPStatus.UNAUTHORIZED: "No token, or one that opens nothing.",
    HTTPStatus.FORBIDDEN: "The token's scopes, or its owner's rights, do not allow this.",
    HTTPStatus.NOT_FOUND: "It is not there, or the owner of the token may not view it.",
    HTTPStatus.CONFLICT: "Not in this state: somebody or something was faster.",
    HTTPStatus.LENGTH_REQUIRED: "The content came in pieces, without its length.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "More was sent than is read.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The content is of a type that this address does not take.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Values that are wrong, each with its field in `problems`.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests in this minute: wait for `Retry-After`.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Too much at once, or no database: wait for `Retry-After`.",
}
UNCHANGED = "What the program has is still right: its `If-None-Match` is the ETag of the answer."
PARAMETERS: dict[str, tuple[str, Any]] = {
    # name: what it is, and an example where an address names none
    "limit": ("How many items are sent at once.", 100),
    "cursor": ("Where the list goes on: the one that stands in `next`.", None),
    "fields": ("Names of fields, by commas: nothing else is sent.", None),
    "metrics": ("Names of metrics, by commas.", "step_time,throughput"),
}
TOKEN, SESSION = "token", "session"
SCHEMES: Json = {
    TOKEN: {
        "type": "http",
        "scheme": "bearer",
        "description": "A token with the scope that is named; “API tokens” in the menu with "
        "your name makes one.",
    },
    SESSION: {
        "type": "apiKey",
        "in": "cookie",
        "name": settings.SESSION_COOKIE_NAME,
        "description": "The session of a browser that is logged in; to read alone.",
    },
}
EXAMPLE: Json = {
    "type": "about:blank",
    "title": "Unprocessable Entity",
    "status": 422,
    "detail": "What was sent is not what this address takes.",
    "problems": [{"field": "query.limit", "message": "Input should be greater than 0"}],
}


def describe_content(media_type: str, about: str = "OK", *, is_text: bool = True) -> Json:
    """Return what a route says by `openapi_extra` that has no schema of ours; its response is None.

    What programs read as more than a text, such as YAML, has no type here.
    """
    content = {media_type: {"schema": {"type": "string"} if is_text else {}}}
    return {"responses": {200: {"description": about, "content": content}}}


PLAIN_TEXT = describe_content("text/plain")


class DocumentedApi(NinjaAPI):
    """An API whose document is complete: its errors, scopes and sparse lists, too."""

    def get_openapi_operation_id(self, operation: Operation) -> str:
        """Return the name of its function: clients call theirs by it."""
        return operation.view_func.__name__

    def list_operations(self) -> Iterator[tuple[str, Operation]]:
        """Yield each function of the API with its path."""
        for bound in self._get_bound_routers():
            for path, view in bound.path_operations.items():
                yield from ((path, operation) for operation in view.operations)

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: Json | None = None
    ) -> OpenAPISchema:
        """Make the document, which takes a third of a second."""
        document = super().get_openapi_schema(path_prefix=path_prefix, path_params=path_params)
        return complete_document(document, list_scopes(self))

    @cached_property
    def _written_document(self) -> bytes:
        """Return the document as it is sent: as values it took eight times as much memory."""
        return json.dumps(self.get_openapi_schema(), cls=NinjaJSONEncoder).encode()

    def answer_document(self, request: HttpRequest) -> HttpResponse:
        """Send the document."""
        return HttpResponse(self._written_document, content_type="application/json")


def list_scopes(api: DocumentedApi) -> dict[str, str]:
    """Return the scope that each operation needs, by its id; none for those that are open."""
    scopes = {}
    for _, operation in api.list_operations():
        name = operation.operation_id or api.get_openapi_operation_id(operation)
        for way in operation.auth_callbacks:
            if isinstance(way, TokenAuth):
                scopes[name] = str(way.scope)
    return scopes


def complete_document(document: OpenAPISchema, scopes: dict[str, str]) -> OpenAPISchema:
    """Write into the document what holds for all addresses. Raises ValueError for a name twice."""
    components, names = document["components"], set()
    components["securitySchemes"] = SCHEMES
    problem = ProblemSchema.model_json_schema(ref_template="#/components/schemas/{model}")
    components["schemas"] |= problem.pop("$defs", {}) | {"ProblemSchema": problem}
    components["responses"] = {_name(status): _describe_error(status) for status in ERRORS}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = operation["operationId"]
            if name in names:
                raise ValueError(f"Two functions of the API are named {name}")
            names.add(name)
            _complete(operation, method, scopes.get(name), has_row="{" in path)
            _allow_sparse_items(operation, components["schemas"])
    return document


def _name(status: HTTPStatus) -> str:
    return status.phrase.title().replace(" ", "")


def _describe_error(status: HTTPStatus) -> Json:
    schema = {"$ref": "#/components/schemas/ProblemSchema"}
    answer: Json = {
        "description": ERRORS[status],
        "content": {CONTENT_TYPE: {"schema": schema}},
    }
    if status == HTTPStatus.UNPROCESSABLE_ENTITY:
        answer["content"][CONTENT_TYPE]["example"] = EXAMPLE
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        wait = {"description": "Seconds.", "required": True, "schema": {"type": "integer"}}
        answer["headers"] = {"Retry-After": wait}
    return answer


def _complete(operation: Json, method: str, scope: str | None, *, has_row: bool) -> None:
    summary, _, rest = operation.get("description", "").partition("\n")
    operation["summary"], operation["description"] = summary.rstrip("."), rest.strip()
    for parameter in operation.get("parameters", []):
        about, example = PARAMETERS.get(parameter["name"], ("", None))
        if about and not parameter.get("description"):
            parameter["description"] = about
        if example is not None and not {"example", "examples"} & parameter.keys():
            parameter["example"] = example
    answers = operation["responses"]
    statuses = [
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.SERVICE_UNAVAILABLE,
    ]
    if scope is not None:
        statuses += [HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN]
        reads = method == "get"
        operation["security"] = [{TOKEN: [scope]}, *([{SESSION: []}] if reads else [])]
        needs = f"Needs a token with the scope `{scope}`" + (", or any." if reads else ".")
        operation["description"] = f"{operation['description']}\n\n{needs}".strip()
    if has_row:
        statuses.append(HTTPStatus.NOT_FOUND)
    if "requestBody" in operation:
        statuses += [HTTPStatus.LENGTH_REQUIRED, HTTPStatus.REQUEST_ENTITY_TOO_LARGE]
    statuses.append(HTTPStatus.UNPROCESSABLE_ENTITY)
    statuses += [status for status in ERRORS if int(status) in answers]
    for status in statuses:
        answers[int(status)] = {"$ref": f"#/components/responses/{_name(status)}"}
    if method == "get":
        answers[int(HTTPStatus.NOT_MODIFIED)] = {"description": UNCHANGED}
    operation["responses"] = {str(status): answers[status] for status in sorted(answers)}


def _allow_sparse_items(operation: Json, schemas: Json) -> None:
    """Require no field but the id in items of a list whose address takes `fields`."""
    if not any(parameter["name"] == "fields" for parameter in operation.get("parameters", [])):
        return
    content = operation["responses"]["200"]["content"]["application/json"]
    name = content["schema"]["$ref"].rsplit("/", 1)[-1]
    rows = schemas[name]["properties"]["items"]
    item = rows["items"]["$ref"].rsplit("/", 1)[-1]
    sparse = f"{item.removesuffix('Schema')}Item"
    if item != sparse and not item.endswith("Item"):
        schemas[sparse] = copy.deepcopy(schemas[item]) | {"required": ["id"], "title": sparse}
        rows["items"] = {"$ref": f"#/components/schemas/{sparse}"}
