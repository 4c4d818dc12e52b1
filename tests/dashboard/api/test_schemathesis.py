"""What schemathesis makes of the OpenAPI document is answered as the document says, never by 500.

Each operation meets requests that fit the document and requests that do not, with the token of a
site administrator, so that nothing is refused before it is read. Everything is taken back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.cache import caches
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, settings
from schemathesis.checks import CHECKS
from schemathesis.generation import GenerationMode

from experiments.models import Role
from experiments.models.api_token import Scope
from tests.conftest import EXPLORES
from tests.dashboard.api.requests_by_token import log_in
from tests.dashboard.api.test_api_roles import find_rows, make_rows
from tests.dashboard.conftest import Site
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db

DOCUMENT = "/api/v1/openapi.json"
EXAMPLES = 1000 if EXPLORES else 12
BEYOND_A_SCHEMA = ("positive_data_acceptance",)
"""A cursor is a text, but not each text is one: 422 in words is right."""


schema = schemathesis.openapi.from_wsgi(DOCUMENT, get_wsgi_application())
schema.config.generation.update(modes=list(GenerationMode))


@pytest.fixture(autouse=True)
def _in_one_transaction() -> Iterator[None]:
    """Requests share the test's transaction, as those of Django's client do."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture
def own(site: Site) -> dict[str, list[Any]]:
    """Rows of an administrator, by what addresses name."""
    administrator = UserFactory(role=Role.SITE_ADMINISTRATOR)
    rows = make_rows(site, administrator)
    token = log_in(administrator, *Scope.values)["authorization"]
    rows["headers"] = [{"Authorization": token, "Accept-Encoding": "identity"}]
    return rows


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=not EXPLORES,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_as_documented(case: Any, own: dict[str, list[Any]]) -> None:
    caches["limits"].clear()
    _name_real_row(case, own)
    (headers,) = own["headers"]
    with transaction.atomic():
        case.call_and_validate(
            headers=headers, excluded_checks=[CHECKS.get_one(name) for name in BEYOND_A_SCHEMA]
        )
        transaction.set_rollback(True)


def _name_real_row(case: Any, own: dict[str, list[Any]]) -> None:
    """Have each request that fits the document ask for a row that is there."""
    if case.meta and case.meta.generation.mode == GenerationMode.POSITIVE:
        name = case.operation.definition.raw["operationId"]
        names = re.findall(r"{(\w+)}", case.operation.path)
        if "ending" not in names:
            rows = find_rows(name, own) if names else ()
            case.path_parameters.update(zip(names, rows, strict=False))
