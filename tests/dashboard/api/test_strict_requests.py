"""The one door of the API: what no address knows is refused in words, as problem+json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client, RequestFactory
from hypothesis import given
from hypothesis import strategies as st
from ninja import Schema

from dashboard.api.api import api
from dashboard.api.problems import Problem
from dashboard.api.strict_requests import StrictParser
from experiments.models import Experiment
from tests.dashboard.api.requests_by_token import log_in
from tests.factories import ExperimentFactory, UserFactory

pytestmark = pytest.mark.django_db


def check_problem(answer: Any, status: int) -> dict[str, Any]:
    """Return the content of an answer that has to be a problem with this status."""
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    content: dict[str, Any] = json.loads(answer.content)
    assert (content["status"], bool(content["detail"])) == (status, True)
    return content


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete", "options", "trace"])
def test_a_method_that_is_not_there_is_answered_with_those_that_are(
    client: Client, method: str
) -> None:
    answer = getattr(client, method)("/api/v1/me")
    check_problem(answer, 405)
    assert answer["Allow"] == "GET, HEAD"


def test_head_has_the_headers_of_get(client: Client) -> None:
    headers = log_in(UserFactory())
    head, whole = (
        getattr(client, method)("/api/v1/me", headers=headers) for method in ("head", "get")
    )
    assert (head.status_code, head.content, head["ETag"]) == (200, b"", whole["ETag"])


@pytest.mark.parametrize(
    "path", ["nowhere", "me/", "experiments/1/nothing", "experiments/a/b/c/d", "%00", "%ED%A0%80"]
)
def test_an_address_that_is_not_there_is_no_page(client: Client, path: str) -> None:
    for root in ("/api/", "/api/v1/"):
        answer = client.get(f"{root}{path}", headers=log_in(UserFactory()))
        check_problem(answer, 400 if "%00" in path else 404)


def test_a_nul_in_a_query_is_answered_as_a_problem(client: Client) -> None:
    check_problem(client.get("/api/v1/runs?node=%00", headers=log_in(UserFactory())), 400)


def test_more_than_is_read_is_refused_before_it_is_read(client: Client) -> None:
    draft: Experiment = ExperimentFactory()
    path = f"/api/v1/experiments/{draft.pk}/launch"
    sent = {"content_type": "application/json", "CONTENT_LENGTH": str(100 * 10**6)}
    answer = client.post(path, b"{}", headers=log_in(draft.owner, "experiments"), **sent)  # type: ignore[arg-type]
    assert "100,000,000 bytes" in check_problem(answer, 413)["detail"]


@pytest.mark.parametrize("text", ["nan", "²", "-1", "1e3", "9" * 5000, "", "1,2", "true", "0x1"])
def test_odd_numbers_in_addresses(client: Client, text: str) -> None:
    headers = log_in(UserFactory())
    check_problem(client.get(f"/api/v1/runs?limit={text}", headers=headers), 422)
    check_problem(client.get(f"/api/v1/experiments/{2**63 - 1}", headers=headers), 404)
    if text:
        check_problem(client.get(f"/api/v1/experiments/{text}", headers=headers), 422)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b"[" * 100_000,
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a\\u0000": 1}',
        b'[{"a": ["\\ud800"]}]',
        b'\xef\xbb\xbf{"a": 1}',
    ],
)
def test_what_is_no_json_that_a_row_can_hold_is_refused(content: bytes) -> None:
    request = RequestFactory().post("/", content, content_type="application/json")
    with pytest.raises(Problem) as refusal:
        StrictParser().parse_body(request)
    assert refusal.value.status == 400


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])), inner
        )
    ),
)


@given(JSON)
def test_what_is_json_is_read_as_it_is(value: Any) -> None:
    request = RequestFactory().post("/", json.dumps(value), content_type="application/json")
    assert StrictParser().parse_body(request) == value


def test_each_operation_is_described(client: Client) -> None:
    document = client.get("/api/v1/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert document["components"]["securitySchemes"].keys() == {"token", "session"}
    for address, methods in document["paths"].items():
        for method, operation in methods.items():
            summary = operation["summary"]
            assert summary[0].isupper(), (method, address)
            assert len(summary.split()) > 2, (method, address)
            assert operation["responses"].keys() >= {"400", "401", "403", "422", "429"}
            assert operation["security"][0]["token"], address
            for parameter in operation["parameters"]:
                assert parameter.get("description"), (method, address, parameter["name"])


def test_each_schema_has_a_name_of_its_own() -> None:
    """The document has one schema of a name: a second one would take its place without a word."""
    names = [kind.__name__ for kind in _list_schemas(Schema)]
    assert sorted(names) == sorted(set(names))


def _list_schemas(base: type[Schema]) -> Iterator[type[Schema]]:
    for kind in base.__subclasses__():
        if kind.__module__.startswith("dashboard.api."):
            yield kind
        yield from _list_schemas(kind)


def test_a_list_with_some_fields_is_what_the_document_says() -> None:
    schemas = api.get_openapi_schema()["components"]["schemas"]
    assert schemas["ListedRunItem"]["required"] == ["id"]
    assert "metrics" in schemas["ListedRunSchema"]["required"]


def test_a_body_without_its_length_is_refused_before_it_counts_as_empty(client: Client) -> None:
    headers = log_in(UserFactory(), "experiments") | {"Transfer-Encoding": "chunked"}
    for path in ("experiments", "experiments/check", "experiments/1/clone"):
        answer = client.post(
            f"/api/v1/{path}",
            b"tare: 1",
            content_type="application/yaml",
            headers=headers,
            CONTENT_LENGTH="",
        )
        assert "Content-Length" in check_problem(answer, 411)["detail"]


@pytest.mark.parametrize("path", ["", "v1/", "v1/openapi.json"])
def test_what_describes_the_api_is_read_by_get_alone(client: Client, path: str) -> None:
    for method in ("post", "put", "patch", "delete", "options"):
        answer = getattr(client, method)(f"/api/{path}")
        check_problem(answer, 405)
        assert answer["Allow"] == "GET, HEAD"
    check_problem(client.get(f"/api/{path}?of=runs"), 422)
    assert client.head(f"/api/{path}").status_code == 200


@pytest.mark.django_db(transaction=True)
def test_while_the_database_is_away_programs_are_asked_to_come_again(client: Client) -> None:
    headers = log_in(UserFactory(), "experiments") | {"Idempotency-Key": "a"}
    for method, path in (("get", "me"), ("get", "runs"), ("post", "experiments/1/launch")):
        connection.ensure_connection()
        connection.connection.close()  # as it is after PostgreSQL was started anew
        answer = getattr(client, method)(f"/api/v1/{path}", headers=headers)
        connection.close()
        assert "database" in check_problem(answer, 503)["detail"]
        assert int(answer["Retry-After"]) > 0
    assert client.get("/api/v1/me", headers=headers).status_code == 200


def test_what_a_schema_refuses_is_a_sentence_of_ours(client: Client) -> None:
    owner = UserFactory()
    headers = log_in(owner, "experiments")
    path = f"/api/v1/experiments/{ExperimentFactory(owner=owner).pk}"
    answer = client.patch(path, {"qestion": "?"}, content_type="application/json", headers=headers)
    (problem,) = check_problem(answer, 422)["problems"]
    assert problem["message"].startswith("There is no field “qestion”. Did you mean “question”?")
    answer = client.get("/api/v1/experiments?state=runing", headers=headers)
    (problem,) = check_problem(answer, 422)["problems"]
    assert problem["message"] == "This is to be one of draft, alive, ended, imported."


def test_a_filter_by_a_metric_that_is_not_there_says_so(client: Client) -> None:
    answer = client.get("/api/v1/runs?where=parameter.x>=1", headers=log_in(UserFactory()))
    (problem,) = check_problem(answer, 422)["problems"]
    assert "there is no column “parameter.x”" in problem["message"]
    answer = client.get("/api/v1/runs?where=stat=failed", headers=log_in(UserFactory()))
    (problem,) = check_problem(answer, 422)["problems"]
    assert "did you mean “state”?" in problem["message"]
