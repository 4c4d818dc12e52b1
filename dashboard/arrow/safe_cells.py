"""Cells that no spreadsheet takes for a formula."""

from __future__ import annotations

import re
from typing import Any

# A spreadsheet takes a text that begins like this for a formula, the wide forms too.
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
HIDDEN = ("\t", "\r", "\n")
# Numbers, and the dashes that stand for a missing one.
HARMLESS = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d{1,3})?|-+", re.ASCII)


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet would run a cell of this text; negative numbers are numbers."""
    bare = text.strip()
    if HARMLESS.fullmatch(bare):
        return False
    return bare.startswith(FORMULA) or text.startswith(HIDDEN)


def make_safe_cell(value: Any) -> Any:
    """Return the value; a text that a spreadsheet would run gets an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and is_formula(value) else value
