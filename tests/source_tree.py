"""The modules of the repository and what they import, read from their source without importing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

BASE = Path(__file__).resolve().parent.parent
FLOORS = ("dashboard", "experiments", "runners", "standalone")


def module_name(path: Path) -> str:
    """Return the dotted name of a module; of a package's `__init__.py`, the package's."""
    parts = path.relative_to(BASE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules() -> Iterator[Path]:
    """Yield the files of all modules of all floors, without migrations."""
    for floor in FLOORS:
        yield from (path for path in (BASE / floor).rglob("*.py") if "migrations" not in path.parts)


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that a syntax tree imports, without those of its own package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        # A relative import stays in its package: the payload runs outside of ours.
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


def room_of(module: str) -> str:
    """Return the room that a module is in, "experiments.images"; of a floor itself, the floor."""
    return ".".join(module.split(".")[:2])


def imported_modules(path: Path, known: set[str]) -> Iterator[str]:
    """Yield the modules of ours that a module imports, `from room import module` included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in known else node.module


@cache
def imports_between_rooms() -> dict[str, set[str]]:
    """Return for each room of each floor the other rooms, of any floor, that it imports."""
    known = {module_name(path) for path in modules()}
    rooms: dict[str, set[str]] = {}
    for path in modules():
        room = room_of(module_name(path))
        if "." in room:
            imported = {room_of(name) for name in imported_modules(path, known)}
            rooms.setdefault(room, set()).update(
                name for name in imported if name.startswith(tuple(f"{f}." for f in FLOORS))
            )
            rooms[room].discard(room)
    return rooms
