"""Requests are counted anew in each test: those of the test before were in the same minute."""

from __future__ import annotations

import pytest
from django.core.cache import caches
from schemathesis.pytest.plugin import SchemathesisFunction


@pytest.fixture(autouse=True)
def _nothing_counted() -> None:
    caches["limits"].delete_many(list_counted())


def list_counted() -> list[str]:
    """Return the keys of all that is counted at present."""
    cache = caches["limits"]
    client = cache._cache.get_client(None, write=True)  # type: ignore[attr-defined]
    start = cache.make_key("")
    return [key.decode().removeprefix(start) for key in client.scan_iter(f"{start}*")]


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Name a test of schemathesis after its operation: all of them have the name of the function,
    and of tests of one name only one is run where there are several processes.
    """
    if isinstance(item, SchemathesisFunction) and item.operation_label:
        item._id = item.id.with_params(item.operation_label.replace(" ", "-"))
