"""The documents name only what there is, and the picture of the rooms shows what is imported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.draw_rooms import PICTURE, draw
from tests.source_tree import BASE, module_name, modules

DOCUMENTS = sorted(
    path
    for path in (*BASE.glob("*.md"), *(BASE / "docs").rglob("*.md"), *BASE.glob("*/README.md"))
    if not path.name.startswith(".")
)
ARCHITECTURE = BASE / "docs" / "architecture.md"
# What CONTRIBUTING.md and docs/architecture.md take as an example of something to add.
EXAMPLES = {"runners/runtimes/bubblewrap.py", "tests/runners/golden/runtimes/bubblewrap.bash"}
MADE_BY_USE = {"mutants", "staticfiles", "var"}  # a checkout may have them or not
TOP_FOLDERS = {path.name for path in BASE.iterdir() if path.is_dir()} - MADE_BY_USE
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?<![\w/<>{}*.$-])(?:[\w.-]+/)+[\w.-]*(?![\w<>{}*])")
DOTTED = re.compile(r"[a-z_]\w*(?:\.\w+)+")
LINK = re.compile(r"\]\(([^)#\s]+)")
FILES = (".sh", ".json", ".py", ".md", ".ndjson", ".txt", ".svg", ".html", ".template")


def code_in(path: Path) -> list[str]:
    """Return what stands between backticks, without blocks of code."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    return CODE.findall(text)


def name_of(path: object) -> str:
    return str(path.relative_to(BASE)) if isinstance(path, Path) else ""


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_path_in_a_document_exists(document: Path) -> None:
    missing = []
    for code in code_in(document):
        for path in PATH.findall(code):
            if path.partition("/")[0] in TOP_FOLDERS and path not in EXAMPLES:
                if not any((folder / path).exists() for folder in (BASE, document.parent)):
                    missing.append(path)
            elif path.endswith(".py") and path not in EXAMPLES and not is_end_of_a_path(path):
                missing.append(path)
    assert missing == []


def is_end_of_a_path(end: str) -> bool:
    return any(str(path).endswith(f"/{end}") for path in modules())


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    links = [link for link in LINK.findall(document.read_text()) if "://" not in link]
    assert [link for link in links if not (document.parent / link).exists()] == []


@cache
def names_by_module() -> dict[str, set[str]]:
    """Return what each module defines, "name" and "Class.name", by its name and its last part."""
    names: dict[str, set[str]] = {}
    for path in modules():
        defined = set(defined_names(ast.parse(path.read_text()).body))
        name = module_name(path)
        for spelling in {name, name.rpartition(".")[2]}:
            names.setdefault(spelling, set()).update(defined)
    return names


def defined_names(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from defined_names(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign):
            yield from (prefix + t.id for t in node.targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield prefix + node.target.id


def is_defined(dotted: str) -> bool:
    """Return whether a dotted name is a module, or something that a module defines."""
    names = names_by_module()
    parts = dotted.split(".")
    return dotted in names or any(
        ".".join(parts[i:]) in names.get(".".join(parts[:i]), set()) for i in range(1, len(parts))
    )


def test_every_function_that_the_map_names_exists() -> None:
    names = [
        code.removesuffix("()")
        for code in code_in(ARCHITECTURE)
        if DOTTED.fullmatch(code.removesuffix("()")) and not code.endswith(FILES)
    ]
    assert names
    assert [name for name in names if not is_defined(name)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_module_that_a_document_names_in_full_exists(document: Path) -> None:
    floors = ("dashboard.", "experiments.", "runners.", "standalone.")
    names = [code for code in code_in(document) if DOTTED.fullmatch(code)]
    full = [name for name in names if name.startswith(floors)]
    assert [name for name in full if not is_defined(name)] == []


def test_the_picture_shows_what_the_rooms_import() -> None:
    message = "The imports have changed: python -m tests.draw_rooms draws docs/rooms.svg anew."
    assert PICTURE.read_text() == draw(), message
