"""The pages of single runtimes say nothing that the table of all, or the commands, do not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runners.runtimes import RUNTIMES
from tests.source_tree import BASE

DOCS = BASE / "docs"
PAGES = sorted((DOCS / "runtimes").glob("*.md"))
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
CODE = re.compile(r"`([^`\n]+)`")


def read_known() -> str:
    """Return where options of runtimes are written: tables, commands, and what makes these."""
    paths = [DOCS / "runtimes.md", DOCS / "formats.md"]
    paths += (BASE / "tests" / "runners" / "golden").rglob("*.bash")
    paths += (BASE / "runners" / "runtimes").glob("*.py")
    return "\n".join(path.read_text() for path in paths)


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.name)
def test_each_option_of_a_page_is_one_that_tare_passes_on(document: Path) -> None:
    known = read_known()
    codes = CODE.findall(document.read_text())
    options = [option for code in codes for option in OPTION.findall(code)]
    assert [option for option in options if option not in known] == []


def test_each_runtime_has_its_page() -> None:
    text = "\n".join(path.read_text() for path in PAGES)
    headings = "\n".join(re.findall(r"^#+ .*$", text, re.MULTILINE))
    assert [r.label for r in RUNTIMES.values() if r.label not in headings] == []
    overview = (DOCS / "runtimes.md").read_text()
    assert [page.name for page in PAGES if f"(runtimes/{page.name})" not in overview] == []


def test_what_a_page_says_of_versions_is_what_the_table_says() -> None:
    overview = (DOCS / "runtimes.md").read_text()
    for page in PAGES:
        for version in re.findall(r"\b\d+\.\d+(?:\.\d+)?\b", page.read_text()):
            assert version in overview + (DOCS / "formats.md").read_text(), (page.name, version)
