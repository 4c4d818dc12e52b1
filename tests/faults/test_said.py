"""The document shows what the pages say, word by word."""

from __future__ import annotations

import pytest

from tests.faults.points import POINTS
from tests.faults.said import SAID
from tests.source_tree import BASE

DOCUMENT = (BASE / "docs" / "reliability.md").read_text()


@pytest.mark.parametrize("fault", SAID)
def test_each_sentence_stands_in_the_document(fault: str) -> None:
    assert SAID[fault] in DOCUMENT


def test_the_document_counts_the_points() -> None:
    assert f"any of {len(POINTS)} points" in DOCUMENT
