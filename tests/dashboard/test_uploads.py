"""What is too large is refused in words, and nothing of a gigabyte is read first."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from dashboard.uploads import MOST_RECEIVED
from experiments.imports import LIMITS
from tests.dashboard.api.requests_by_token import log_in
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db
JUDGES = {"image_new", "table_new"}
"""Pages with a limit of their own, which read nothing of it either."""
FORM = "multipart/form-data; boundary=x"


class Unreadable(io.BytesIO):
    """A body that is still to come."""

    def read(self, size: int | None = -1) -> bytes:
        raise AssertionError("The request was read.")

    readline = read  # type: ignore[assignment]


def list_pages(patterns: Any, before: str = "/") -> list[tuple[str, str]]:
    """Return the address and the name of each view without parameters."""
    found = []
    for pattern in patterns:
        address = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            if not address.startswith(("/admin/", "/api/")):
                found += list_pages(pattern.url_patterns, address)
        elif isinstance(pattern, URLPattern) and not set("<^") & set(address):
            found.append((address, pattern.name or ""))
    return found


def send(client: Client, address: str, size: int, headers: Any = None) -> Any:
    sent: Any = {"wsgi.input": Unreadable(), "CONTENT_LENGTH": str(size)}
    return client.generic("POST", address, b"", content_type=FORM, headers=headers, **sent)


@pytest.mark.parametrize("role", ["nobody", "researcher"])
def test_no_page_reads_a_gigabyte(role: str) -> None:
    client = Client(enforce_csrf_checks=True)
    if role != "nobody":
        client.force_login(UserFactory(role=role))
    pages = list_pages(get_resolver().url_patterns)
    assert len(pages) > 50
    for address, name in pages:
        if name not in JUDGES:
            answer = send(client, address, 10**9)
            assert answer.status_code == 413, address
            assert "larger than 200 MB" in answer.content.decode()


@pytest.mark.parametrize("address", ["experiments/import", "bundles", "experiments/1/results"])
def test_no_address_of_the_api_reads_a_gigabyte(address: str, client: Client) -> None:
    headers = log_in(UserFactory(role="researcher"), "experiments")
    answer = send(client, f"/api/v1/{address}", 10**9, headers)
    assert (answer.status_code, answer["Content-Type"]) == (413, "application/problem+json")
    assert answer.json()["detail"].startswith("More was sent than any address of the API takes.")


def test_pages_with_a_limit_of_their_own_read_nothing_of_what_they_refuse() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(UserFactory(role="researcher"))
    for address in ("/compare/tables/new/", "/catalogue/images/new/"):
        assert send(client, address, 10**12).status_code == 413, address


@pytest.mark.parametrize("address", ["/login/", "/compare/tables/new/", "/catalogue/images/new/"])
@pytest.mark.parametrize("size", [10**18, 10**40, 10**4000])
def test_a_length_with_too_many_digits_is_refused_like_a_gigabyte(address: str, size: int) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(UserFactory(role="researcher"))
    assert send(client, address, size).status_code == 413


def test_a_file_that_was_dropped_for_its_size_is_not_called_empty() -> None:
    assert LIMITS.archive_bytes < MOST_RECEIVED
    client = Client()
    client.force_login(UserFactory(role="researcher"))
    file = SimpleUploadedFile("study.yaml", bytes(LIMITS.archive_bytes + 1))
    page = client.post("/experiments/import/file/", {"file": file, "action": "import"})
    text = page.content.decode()
    assert "larger than 1 MB" in text
    assert "is empty" not in text
    assert len(text) < 100_000
