"""Expressions by which PostgreSQL sorts rows in natural order, as `natural_order` has it."""

from __future__ import annotations

from django.db.models import Case, F, Func, TextField, Value, When
from django.db.models.functions import Collate

DIGITS = 18
"""Numbers of up to so many digits are compared by their size."""
FIRST = "\x01"
"""Comes before each number, so that a9 is before "a 3": a sign is part of the text before it."""
AS_PYTHON = "C"
"""The collation that compares letters by their numbers in Unicode, whatever the database's own."""


def pad_numbers(column: str) -> Func:
    """Return an expression that orders rows by a column of text with its numbers by size.

    Each number is written with `DIGITS` digits. No index has this order: for lists of thousands of
    rows, not of hundreds of thousands.
    """
    padded = _replace(F(column), "([0-9]+)", FIRST + "0" * (DIGITS - 1) + r"\1")
    return Collate(_replace(padded, f"0*([0-9]{{{DIGITS}}})", r"\1"), AS_PYTHON)


def pad_workload(path: str = "") -> Case:
    """Return an expression that orders rows by a workload, which is at `path` or the row itself.

    Variants come by the values in which they differ, as `Workload.natural_key` has them.
    """
    begin = f"{path}__" if path else ""
    return Case(
        When(**{f"{begin}sweep_order": ""}, then=pad_numbers(f"{begin}name")),
        default=Collate(F(f"{begin}sweep_order"), AS_PYTHON),
        output_field=TextField(),
    )


def _replace(text: F | Func, pattern: str, replacement: str) -> Func:
    return Func(
        text,
        Value(pattern),
        Value(replacement),
        Value("g"),
        function="regexp_replace",
        output_field=TextField(),
    )
