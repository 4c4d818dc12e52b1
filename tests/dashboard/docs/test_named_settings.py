"""The settings that the documents name for administrators are settings of the site."""

from __future__ import annotations

import re

from tests.source_tree import BASE


def test_each_setting_of_the_table_is_read() -> None:
    text = (BASE / "docs" / "administration.md").read_text()
    table = text.partition("## Settings")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([A-Z][A-Z_]+)`", table)) - {"NAME_FILE"}
    assert len(named) > 15
    read = set(re.findall(r'"([A-Z][A-Z_]+)"', (BASE / "dashboard" / "settings.py").read_text()))
    assert named - read == set()
