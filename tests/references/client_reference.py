"""The reference of the client, made of its docstrings and of the help of its command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import griffe

from tests.references.markdown import clean_text
from tests.source_tree import BASE

FOLDER = BASE / "clients" / "python"
PACKAGE = FOLDER / "tare_client"


def write_client_reference() -> str:
    """Return the reference: what the package offers, in its own order, then each command's help."""
    package = griffe.load("tare_client", search_paths=[str(FOLDER)], allow_inspection=False)
    parts = [
        "# Client reference",
        "Made from the docstrings of `clients/python/` by `make references`: change the code, not "
        "this page.",
        "## Python",
        _read_docstring(package),
        *_write_members(package),
        "## Command",
        *_write_commands(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _read_docstring(item: griffe.Object | griffe.Alias) -> str:
    return item.docstring.value.replace("<", "\\<") if item.docstring else ""


def _write_members(package: griffe.Object | griffe.Alias) -> Iterator[str]:
    for name in package.exports or []:
        member = package.members.get(str(name))
        if member is None:
            continue
        try:
            item = member.final_target if isinstance(member, griffe.Alias) else member
        except griffe.AliasResolutionError as error:
            raise ValueError(f"{name} is not where it is imported from: {error}") from error
        yield f"### {clean_text(item.name)}"
        yield _write_signature(item)
        yield _read_docstring(item)
        if isinstance(item, griffe.Class):
            for inner in item.members.values():
                if inner.is_function and not inner.name.startswith("_"):
                    yield f"#### {item.name}.{inner.name}"
                    yield _write_signature(inner)
                    yield _read_docstring(inner)


def _write_signature(item: griffe.Object | griffe.Alias) -> str:
    """Return what a caller writes; of a class its base classes and fields."""
    if isinstance(item, griffe.Function):
        return f"```python\n{item.signature()}\n```"
    if isinstance(item, griffe.Class):
        bases = ", ".join(str(base) for base in item.bases)
        fields = [
            f"    {field.name}: {field.annotation}"
            for field in item.members.values()
            if isinstance(field, griffe.Attribute)
            and field.annotation is not None
            and not field.name.startswith("_")
        ]
        head = f"class {item.name}" + (f"({bases})" if bases else "")
        return "\n".join(["```python", head + (":" if fields else ""), *fields, "```"])
    return ""


def _write_commands() -> Iterator[str]:
    yield f"```text\n{_read_help()}\n```"
    for command in _list_commands():
        yield f"### tare {command}"
        yield f"```text\n{_read_help(command)}\n```"


def _list_commands() -> list[str]:
    program = "from tare_client.command_parser import MODULE_OF_COMMAND; print(*MODULE_OF_COMMAND)"
    return _run("-c", program).split()


def _read_help(*command: str) -> str:
    return _run("-m", "tare_client", *command, "--help").strip()


def _run(*arguments: str) -> str:
    variables = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=FOLDER,
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
