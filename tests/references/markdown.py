"""Pieces of Markdown that any text fits into."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dashboard.docs.documents import make_anchor


def write_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are Markdown of one line."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def clean_text(text: object) -> str:
    """Return a text as one line that can stand in a cell, with no HTML and no end of the cell."""
    line = " ".join(str(text).split())
    return re.sub(r"([\\|<])", r"\\\1", line)


def link_heading(text: str, heading: str) -> str:
    """Return a link to a heading of the same document that stands there once."""
    return f"[{text}](#{make_anchor(heading, {})})"
