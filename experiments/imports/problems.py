"""What is wrong with an import, in words that name the file and the line."""

LONGEST = 400
"""Characters of what is quoted from a file that may hold anything."""


class ImportProblem(ValueError):
    """Logs that cannot be imported. Nothing of them is kept."""


def at(path: str, line: int, text: str) -> ImportProblem:
    """A problem in one line; lines are counted from 1, as editors do."""
    return ImportProblem(f"{path}, line {line}: {text[:LONGEST]}")
