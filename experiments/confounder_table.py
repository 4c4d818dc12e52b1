"""The table of confounders, read from `docs/confounders.md`: how two runs' facts are compared.

Strict: whoever changes the document sees at the start what does not fit, and in which line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import translate
from functools import cache, cached_property, lru_cache
from pathlib import Path

NOT_READ = "not read"
"""Stands for the check sum of a loaded file that is not known: it may be any."""
OF_ENDS = "sha256 of its ends"
"""Begins the check sum of a large file's size and both ends, which is no check sum of the whole."""
DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "confounders.md"
HEADER = ("key", "fact", "compared", "grade", "known on one side only", "reason")
IGNORED_HEADER = ("key", "reason")
KEY = re.compile(r"[A-Za-z0-9_.]+(/(\*|[A-Za-z0-9_.*-]+|\{[A-Za-z0-9_.* -]+\}))?")
WITHIN = re.compile(r"within ([0-9]{1,2}) %")
MOST_CACHED = 10_000
"""Names of facts whose rows are remembered: snapshots repeat them."""
EQUAL, VERSION, NOT_COMPARED = "equal", "version", "–"


class Grade(StrEnum):
    """A grade of a difference: how much it can change the measured numbers."""

    BLOCKING = "blocking"
    LIKELY = "likely"
    COSMETIC = "cosmetic"


TREATMENT = "treatment"
"""Stands for a grade where a fact has to differ, because it is what a container is made of."""


class TableProblem(ValueError):
    """The document cannot be read: which line, and why."""


@dataclass(frozen=True)
class Row:
    """A fact, or facts with one beginning, and what a difference in it does to a verdict."""

    key: str
    """Where the fact stands in a snapshot, such as "gpus/power.limit"."""
    title: str
    compared: str
    grade: Grade | None
    """None for the treatment."""
    grade_if_unknown: Grade
    """Where only one side knows the fact."""
    reason: str
    section: str
    """The heading above its table."""

    @cached_property
    def parent(self) -> str:
        return self.key.partition("/")[0]

    @cached_property
    def anchor(self) -> str:
        """Return the anchor of its section, as pages of documents have it."""
        return re.sub(r"[^\w\- ]", "", self.section.lower()).replace(" ", "-")

    @cached_property
    def patterns(self) -> tuple[str, ...]:
        """Return the patterns for names of one group of facts; empty for a single fact."""
        rest = self.key.partition("/")[2]
        if rest.startswith("{"):
            return tuple(rest.strip("{}").split())
        return (rest,) if "*" in rest else ()

    @cached_property
    def beginning(self) -> str:
        """Return how the names of its facts begin: "package ", "variable "."""
        if not self.patterns:
            return self.title
        if "{" in self.key or self.key.endswith("/*"):
            return self.title.partition("*")[0]
        return self.title.rpartition(" ")[0] + " "

    @cached_property
    def tolerance(self) -> float:
        """Return how much smaller the smaller number may be, as a part of the larger one."""
        match = WITHIN.fullmatch(self.compared)
        return int(match[1]) / 100 if match else 0.0

    def matches(self, name: str) -> bool:
        """Return whether the row is about the fact with this name, such as "package numpy"."""
        if not self.patterns:
            return name == self.title
        rest = name.removeprefix(self.beginning)
        return rest != name and self.fits(rest)

    @cached_property
    def _all_patterns(self) -> re.Pattern[str]:
        return re.compile("|".join(map(translate, self.patterns)) or "(?!)")

    def fits(self, rest: str) -> bool:
        """Return whether a name of its group, such as "numpy", is among its patterns."""
        return bool(self._all_patterns.match(rest))

    def name(self, rest: str) -> str:
        """Return the name of the fact of a group with this name."""
        return f"{self.beginning}{rest}"


@dataclass(frozen=True)
class Table:
    """All rows in their order, and what is recorded and not compared."""

    rows: tuple[Row, ...]
    ignored: Mapping[str, str]

    @cached_property
    def compared(self) -> tuple[Row, ...]:
        """Return the rows that are compared: all but the treatment."""
        return tuple(row for row in self.rows if row.grade)

    @cached_property
    def _by_title(self) -> Mapping[str, Row]:
        return {row.title: row for row in self.rows if not row.patterns}

    @cached_property
    def groups(self) -> Mapping[str, tuple[Row, ...]]:
        """Return the rows of groups of facts, by where they stand: "packages", "variables"."""
        parents = dict.fromkeys(row.parent for row in self.rows if row.patterns)
        return {
            parent: tuple(row for row in self.rows if row.parent == parent) for parent in parents
        }

    def find(self, name: str) -> Row | None:
        """Return the row about the fact with this name; None where there is none."""
        if row := self._by_title.get(name):
            return row
        return next((row for row in self.rows if row.patterns and row.matches(name)), None)

    def find_in_group(self, parent: str, rest: str) -> Row | None:
        """Return the row about what a group holds under a name, such as ("packages", "numpy")."""
        return self._find_in_group(parent, rest)

    @cached_property
    def _find_in_group(self) -> Callable[[str, str], Row | None]:
        return lru_cache(maxsize=MOST_CACHED)(self._search_group)

    def _search_group(self, parent: str, rest: str) -> Row | None:
        key = f"{parent}/{rest}"
        rows = self.groups.get(parent, ())
        return next((row for row in rows if row.key == key or row.fits(rest)), None)


@cache
def read_table() -> Table:
    """Return the table of this version of Tare. TableProblem where the document is malformed."""
    return parse_table(DOCUMENT.read_text(encoding="utf-8"))


def parse_table(text: str) -> Table:
    """Return the table that a document holds. TableProblem names the line that does not fit."""
    rows: list[Row] = []
    ignored: dict[str, str] = {}
    for number, section, header, cells in _iterate_cells(text):
        try:
            if header == HEADER:
                rows.append(_make_row(cells, section))
            elif header == IGNORED_HEADER:
                key, reason = _require_width(cells, IGNORED_HEADER)
                _require_key(key, reason)
                if key in ignored:
                    raise ValueError(f"{key!r} stands there twice")
                ignored[key] = reason
        except ValueError as error:
            raise TableProblem(f"docs/confounders.md, line {number}: {error}.") from error
    if not rows:
        raise TableProblem("docs/confounders.md holds no table of facts.")
    for name in ("key", "title"):
        taken: set[str] = set()
        for row in rows:
            value = getattr(row, name)
            if value in taken or (name == "key" and value in ignored):
                raise TableProblem(f"docs/confounders.md: {value!r} stands there twice.")
            taken.add(value)
    return Table(tuple(rows), ignored)


def _make_row(cells: Sequence[str], section: str) -> Row:
    key, title, compared, grade, unknown, reason = _require_width(cells, HEADER)
    _require_key(key, reason)
    if not title:
        raise ValueError("the fact has no name")
    if ("*" in key or "{" in key) != ("*" in title):
        raise ValueError(f"the key {key!r} and the fact {title!r} are not of one kind")
    if grade == TREATMENT:
        if (compared, unknown) != (NOT_COMPARED, NOT_COMPARED):
            raise ValueError("what is the treatment is not compared")
        return Row(key, title, compared, None, Grade.COSMETIC, reason, section)
    if compared not in (EQUAL, VERSION) and not WITHIN.fullmatch(compared):
        raise ValueError(f"{compared!r} is no way to compare")
    grades = Grade(grade), Grade(unknown)
    if grades[1] is Grade.BLOCKING:
        raise ValueError("what only one side knows cannot be blocking")
    order = list(Grade)
    if order.index(grades[1]) < order.index(grades[0]):
        raise ValueError("what only one side knows cannot be graver than a difference")
    return Row(key, title, compared, *grades, reason, section)


def _require_width(cells: Sequence[str], header: Sequence[str]) -> Sequence[str]:
    if len(cells) != len(header):
        raise ValueError(f"{len(cells)} cells instead of {len(header)}")
    return cells


def _require_key(key: str, reason: str) -> None:
    if not KEY.fullmatch(key):
        raise ValueError(f"{key!r} is no key")
    if len(reason) < 10 or not reason.endswith("."):
        raise ValueError(f"the reason of {key} is no sentence")


def _iterate_cells(text: str) -> Iterator[tuple[int, str, tuple[str, ...], list[str]]]:
    """Yield number of the line, heading, header and cells of each row of each table."""
    section = ""
    header: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("#"):
            section, header = line.lstrip("#").strip(), ()
        elif not line.startswith("|"):
            header = ()
        else:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not header:
                header = tuple(cells)
                if header[0] == "key" and header not in (HEADER, IGNORED_HEADER):
                    raise TableProblem(
                        f"docs/confounders.md, line {number}: the columns are not those known."
                    )
            elif set("".join(cells)) - set("-: "):
                yield number, section, header, cells
