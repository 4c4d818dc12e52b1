"""What is wrong in the file of an experiment, with the place where it stands."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

MOST_PROBLEMS = 100
"""Problems that are listed; more of them nobody reads."""


@dataclass(frozen=True)
class Problem:
    """A sentence about one place of a file. Lines and columns count from 1."""

    field: str
    """The path, such as `environments[1].image`; "" for the file as a whole."""
    message: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: " if self.line else ""
        return f"{place}{self.field + ': ' if self.field else ''}{self.message}"


class BadDefinition(ValueError):
    """A file that is no definition; `problems` says why, in the order of the lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = sort_problems(problems)
        super().__init__("\n".join(map(str, self.problems)))


def sort_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return each problem once, by line and column, at most MOST_PROBLEMS."""
    once = sorted(
        dict.fromkeys(problems), key=lambda row: (row.line or 0, row.column or 0, row.field)
    )
    rest = len(once) - MOST_PROBLEMS
    if rest > 0:
        once = [*once[:MOST_PROBLEMS], Problem("", f"And {rest:,} more problems.")]
    return tuple(once)


def suggest_near(name: str, known: Iterable[str]) -> str:
    """Return a sentence with the known name that is most like `name`, or with all of them."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"Is {near[0]} meant?" if near else f"There are {', '.join(names)}."


def shorten(value: object, length: int = 60) -> str:
    text = str(value)
    return text if len(text) <= length else f"{text[: length - 1]}…"
