"""Sweeps between a file, as a table of parameters and values, and the text that the form takes."""

from __future__ import annotations

import re
from typing import Any

from experiments.definitions.definition_problems import shorten
from runners.workloads.parameters import join_arguments

LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,99}): (.*\S)")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_ -]{0,99}")
WHOLE = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*", re.ASCII)
NOT_TEXTS = {"null", "true", "false", "yes", "no", "none"}


def write_sweep(text: str) -> str | dict[str, Any]:
    """Return the form's text as a table where that reads back as the same text, else the text."""
    table: dict[str, Any] = {}
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        if not match or match[1] in table:
            return text
        table[match[1]] = _list_plain_values(match[2]) or match[2]
    return table if table and read_sweep(table) == text else text


def _list_plain_values(text: str) -> list[int | str]:
    values: list[int | str] = []
    for part in text.split(", "):
        if WHOLE.fullmatch(part):
            values.append(int(part))
        elif WORD.fullmatch(part) and part.lower() not in NOT_TEXTS:
            values.append(part)
        else:
            return []
    return values


def read_sweep(value: Any) -> str:
    """Return the text for the form, of a text or a table. Raises ValueError, in words."""
    if isinstance(value, str):
        return "\n".join(value.strip().splitlines())
    if not isinstance(value, dict):
        raise ValueError("A sweep is a table of parameters, such as batch_size: [32, 64].")
    for name in value:
        if not NAME.fullmatch(name):
            raise ValueError(f"“{shorten(name)}” is no name of a parameter.")
    return "\n".join(f"{name}: {_write_values(name, row)}" for name, row in value.items())


def _write_values(name: str, value: Any) -> str:
    if isinstance(value, str):
        if len(value.splitlines()) > 1:
            raise ValueError(f"The values of {name} are to stand in one line.")
        return value
    if not isinstance(value, list):
        value = [value]
    return ", ".join(_write_value(name, row) for row in value)


def _write_value(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(row, str) for row in value):
        value = join_arguments(value)
    if isinstance(value, int | float):
        return repr(value)
    if not isinstance(value, str):
        raise ValueError(f"A value of {name} is to be a number, a text, true or false.")
    if value and WORD.fullmatch(value):
        return value
    quote = next((mark for mark in "\"'" if mark not in value), "")
    if not quote or len(value.splitlines()) > 1:
        raise ValueError(f"A value of {name} cannot have both kinds of quotes, or two lines.")
    return f"{quote}{value}{quote}"
