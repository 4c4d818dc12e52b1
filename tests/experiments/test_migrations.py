"""The tables are what the models say."""

import ast
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest
from django.core.management import call_command

from tests.source_tree import BASE, FLOORS


@pytest.mark.django_db
def test_no_change_of_a_model_lacks_its_migration() -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def names_in_migrations() -> Iterator[tuple[str, str]]:
    """Yield each dotted name of the project's own code that a migration uses, with its file."""
    for path in sorted((BASE / "experiments" / "migrations").glob("0*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                name = ast.unparse(node)
                if name.split(".")[0] in FLOORS:
                    yield path.name, name


def test_what_migrations_name_in_the_code_is_still_there() -> None:
    """A function that only old rows reach would otherwise be missed at an upgrade."""
    names = list(names_in_migrations())
    assert ("0027_share_links.py", "experiments.models.link.new_token") in names
    for file, name in names:
        value = import_module(name.split(".")[0])
        for part in name.split(".")[1:]:
            if isinstance(value, ModuleType) and not hasattr(value, part):
                value = import_module(f"{value.__name__}.{part}")
            else:
                assert hasattr(value, part), f"{file} uses {name}"
                value = getattr(value, part)
