"""The document shows what the pages say, word by word."""

from __future__ import annotations

import pytest

from tests.faults.page_texts import PAGE_TEXTS
from tests.faults.points import POINTS, find_function
from tests.source_tree import BASE

DOCUMENT = (BASE / "docs" / "reliability.md").read_text()


@pytest.mark.parametrize("fault", PAGE_TEXTS)
def test_each_sentence_stands_in_the_document(fault: str) -> None:
    assert PAGE_TEXTS[fault] in DOCUMENT


def test_the_document_counts_the_points() -> None:
    assert f"any of {len(POINTS)} points" in DOCUMENT


@pytest.mark.parametrize("point", POINTS)
def test_the_functions_of_each_point_exist(point: str) -> None:
    """So that whoever renames one is told at once, by name."""
    for path in POINTS[point].functions:
        find_function(path)
