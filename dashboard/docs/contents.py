"""The order in which the documents are listed, in groups, each with what it is about.

`docs/contents.toml` has it, which `make docs` reads too.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache

from django.conf import settings

from dashboard.docs.documents import DECISIONS, FOLDER, START, find_address, map_files, read_title

FURTHER = "Further"
"""The group of documents that the table does not name."""


@dataclass(frozen=True)
class Line:
    """A document in a list of documents."""

    name: str
    title: str
    about: str

    def get_absolute_url(self) -> str:
        return find_address(self.name)


def read_table() -> dict[str, dict[str, str]]:
    """Return each group's documents by its title: what each is about, by its name."""
    text = (settings.BASE_DIR / FOLDER / "contents.toml").read_text(encoding="utf-8")
    return {group["title"]: group["documents"] for group in tomllib.loads(text)["group"]}


@cache
def list_groups() -> tuple[tuple[str, tuple[Line, ...]], ...]:
    """Return all documents in groups; decisions stand on a page of their own."""
    groups = read_table()
    listed = {name for group in groups.values() for name in group} | {START}
    further = {name for name in map_files() if not name.startswith(f"{DECISIONS}/")} - listed
    groups[FURTHER] = dict.fromkeys(sorted(further), "")
    return tuple(
        (title, tuple(Line(name, read_title(name), about) for name, about in group.items()))
        for title, group in groups.items()
        if group
    )


@cache
def list_decisions() -> tuple[Line, ...]:
    """Return the decisions, the last one first."""
    names = [name for name in map_files() if name.startswith(f"{DECISIONS}/")]
    return tuple(Line(name, read_title(name), "") for name in sorted(names, reverse=True))
