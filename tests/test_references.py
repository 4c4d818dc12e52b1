"""The references of docs/ are those of the code, and hold for any OpenAPI document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.references.api_reference import describe_type, write_api_reference
from tests.references.files import REFERENCES


@pytest.mark.parametrize("path", REFERENCES, ids=lambda path: path.name)
def test_a_reference_is_that_of_the_code(path: Path) -> None:
    written = path.read_text() if path.exists() else ""
    assert written == REFERENCES[path](), "The code has changed: run make references."


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9}, "integer, ≥ 1, ≤ 9"),
        ({"type": "string", "maxLength": 3}, "text, at most 3 characters"),
        ({"type": "string", "format": "date-time"}, "date-time"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "text or null"),
        ({"type": ["string", "null"]}, "text or null"),
        ({"type": "array", "items": {"$ref": "#/c/Run"}}, "list of [Run](#type-run)"),
        ({"enum": ["a", 1]}, "one of `a`, `1`"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "object, by name: number"),
        ({}, "anything"),
        ({"type": "integer", "exclusiveMaximum": 2**63}, "integer"),
    ],
)
def test_a_type_is_described_in_words(schema: dict[str, Any], words: str) -> None:
    assert describe_type(schema) == words


TEXTS = st.text(alphabet="a|<>`\\\n[]()*_#", max_size=20)


@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_any_description_stays_in_its_cell_and_is_no_html(texts: list[str]) -> None:
    properties = {f"f{n}": {"type": "string", "description": t} for n, t in enumerate(texts)}
    document = {
        "paths": {"/a": {"get": {"summary": texts[0], "responses": {200: {"description": "OK"}}}}},
        "components": {"schemas": {"T": {"properties": properties}}},
    }
    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(write_api_reference(document))
    parts = [part for token in tokens for part in (token, *(token.children or []))]
    assert [part for part in parts if part.type in ("html_block", "html_inline")] == []
    after = tokens[[token.content for token in tokens].index("Type T") :]
    rows = [token for token in after if token.type == "tr_open"]
    cells = [token for token in after if token.type in ("td_open", "th_open")]
    assert (len(rows), len(cells)) == (len(texts) + 1, 3 * (len(texts) + 1))
