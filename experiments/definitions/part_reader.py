"""What all parts of an experiment's file are read with: tables, texts, and a list of problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from experiments.definitions.definition import Place, find_place
from experiments.definitions.definition_problems import (
    MOST_PROBLEMS,
    Problem,
    shorten,
    suggest_near,
)
from experiments.definitions.yaml_tree import Node, join_path


class PartReader:
    """Collects the problems of a file, each at its place."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.places: dict[str, Place] = {}

    def note_places(self, node: Node, path: str) -> None:
        """Remember where each value stands: of a member of a table, where its name does."""
        self.places.setdefault(path, (node.line, node.column))
        if isinstance(node.value, dict):
            for name, inner in node.value.items():
                member = join_path(path, name)
                self.places[member] = node.keys[name]
                self.note_places(inner, member)
        elif isinstance(node.value, list):
            for number, inner in enumerate(node.value):
                self.note_places(inner, f"{path}[{number}]")

    def add(self, path: str, message: str) -> None:
        place = find_place(self.places, path)
        self.problems.append(Problem(path, message, *(place or (None, None))))

    def read_table(self, node: Node, path: str, known: Iterable[str]) -> dict[str, Node]:
        """Return the known members of a table; others are problems."""
        if not isinstance(node.value, dict):
            self.add(path, "This is to be a table of names and values, such as “name: value”.")
            return {}
        names = list(known)
        for name in node.value:
            if name not in names:
                many = len(self.problems) > MOST_PROBLEMS  # they are counted, and not shown
                cure = "" if many else suggest_near(name, names)
                self.add(join_path(path, name), f"“{shorten(name)}” is not known here. {cure}")
        return {name: inner for name, inner in node.value.items() if name in names}

    def parse(self, node: Node, path: str, parse: Callable[[Any], Any], usual: Any = None) -> Any:
        """Return what `parse` makes of a value; its ValueError becomes a problem."""
        try:
            return parse(node.to_plain())
        except ValueError as error:
            self.add(path, str(error))
            return usual

    def read_text(
        self,
        table: Mapping[str, Node],
        path: str,
        name: str,
        *,
        usual: str = "",
        required: bool = False,
        longest: int = 1000,
    ) -> str:
        """Return a text of a table; of one that is missing or no text, the usual one."""
        if name not in table or table[name].value is None:
            if required and (table or path in self.places):
                self.add(f"{path}.{name}", f"Its {name} is missing.")
            return usual
        value = table[name].value
        if not isinstance(value, str):
            cure = " Write it in quotes." if not isinstance(value, list | dict) else ""
            self.add(f"{path}.{name}", f"This is to be a text.{cure}")
            return usual
        if len(value) > longest:
            self.add(f"{path}.{name}", f"It has {len(value):,} characters; {longest:,} at most.")
        if "\0" in value:
            self.add(f"{path}.{name}", "It has a NUL character.")
        return value

    def read_flag(self, table: Mapping[str, Node], path: str, name: str) -> bool:
        if name not in table or table[name].value is None:
            return False
        value = table[name].value
        if not isinstance(value, bool):
            self.add(f"{path}.{name}", f"This is to be true or false, not {shorten(value)!r}.")
            return False
        return value
