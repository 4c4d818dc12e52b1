"""Errors of an import: messages that name the file and the line."""

LONGEST = 400
"""Characters that are quoted at most from a file."""


class ImportProblem(ValueError):
    """Raised for logs that cannot be imported. Nothing of them is kept."""


def make_line_problem(path: str, line: int, text: str) -> ImportProblem:
    """Return a problem in one line of a file; lines are counted from 1, as editors do."""
    return ImportProblem(f"{path}, line {line}: {text[:LONGEST]}")
