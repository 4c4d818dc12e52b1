"""What newer Pythons than the one that runs the tests would do otherwise.

The image of docker-compose.yml has Python 3.13. Since 3.12 a list, set or dictionary comprehension
is part of its function. One whose variable has the name of a variable of an *enclosing* function
hides that from the comprehensions after it: `UnboundLocalError`.
"""

from __future__ import annotations

import symtable
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.source_tree import BASE, modules

COMPREHENSIONS = {"listcomp", "setcomp", "dictcomp"}
BROKEN = """
def outer(rows):
    names = {}
    def inner():
        lengths = {key: len(names) for key, names in rows.items()}
        return [names[key] for key in lengths]
    return inner()
"""


def list_hidden_names(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the variables of enclosing functions that a comprehension of a function hides."""
    if isinstance(table, symtable.Function) and table.get_name() not in COMPREHENSIONS:
        for child in table.get_children():
            if isinstance(child, symtable.Function) and child.get_name() in COMPREHENSIONS:
                hidden = set(child.get_locals()) & set(table.get_frees())
                yield from (f"{table.get_name()}: {name}" for name in sorted(hidden))
    for child in table.get_children():
        yield from list_hidden_names(child)


def test_the_rule_finds_what_newer_pythons_break() -> None:
    assert list(list_hidden_names(symtable.symtable(BROKEN, "broken", "exec"))) == ["inner: names"]


@pytest.mark.parametrize(
    "path", [*modules(), *(BASE / "lab").glob("*.py")], ids=lambda path: str(path.relative_to(BASE))
)
def test_no_comprehension_hides_a_variable_of_an_enclosing_function(path: Path) -> None:
    table = symtable.symtable(path.read_text(), str(path), "exec")
    assert list(list_hidden_names(table)) == []
