"""Where the docs say which test holds a promise, there is such a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

BASE = Path(__file__).resolve().parents[3]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)")
DOCUMENTS = sorted(BASE.glob("docs/*.md"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_test_that_a_document_names_is_there(document: Path) -> None:
    missing = [
        f"{path}::{name}"
        for path, name in NAMED.findall(document.read_text())
        if not (BASE / path).exists()
        or not re.search(rf"^def {name}\(", (BASE / path).read_text(), re.MULTILINE)
    ]
    assert missing == []


def test_each_of_the_twelve_rules_names_its_test() -> None:
    text = (BASE / "docs/statistics.md").read_text()
    section = text.partition("## Twelve rules of reporting")[2].partition("\n## ")[0]
    rules = re.findall(r"^\| (\d+)\. .*$", section, re.MULTILINE)
    assert [int(number) for number in rules] == list(range(1, 13))
    assert len(NAMED.findall(section)) == 12
