"""Requests are counted anew in each test: those of the test before were in the same minute."""

from __future__ import annotations

import pytest
from django.core.cache import caches

from dashboard.api import limits


@pytest.fixture(autouse=True)
def _nothing_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_asks_again_at", 0.0)
    caches["limits"].delete_many(list_counted())


def list_counted() -> list[str]:
    """Return the keys of all that is counted at present."""
    cache = caches["limits"]
    client = cache._cache.get_client(None, write=True)  # type: ignore[attr-defined]
    start = cache.make_key("")
    return [key.decode().removeprefix(start) for key in client.scan_iter(f"{start}*")]
