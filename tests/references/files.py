"""Which references there are, and where each is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.references.api_reference import write_api_reference
from tests.references.client_reference import PACKAGE, write_client_reference
from tests.source_tree import BASE


def write_api() -> str:
    from dashboard.api.api import api

    return write_api_reference(api.get_openapi_schema())


REFERENCES: dict[Path, Callable[[], str]] = {BASE / "docs" / "api-reference.md": write_api}
if PACKAGE.exists():
    REFERENCES[BASE / "docs" / "client-reference.md"] = write_client_reference
