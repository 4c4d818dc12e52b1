"""Facts of two things side by side: what differs is shown, what both share is folded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from experiments.natural_order import sort_naturally
from experiments.statistics import numbers

MOST_OPEN = 20
"""Facts that differ and are shown at once; the others are folded, unless they were searched for."""
MOST_FACTS = 300
"""Of each list that a page shows; the search finds the others."""
MOST_VALUES = 3
"""Values of one fact that stand in one line; more of them stand below each other."""
MOST_LINES = 8
LONGEST_TEXT = 600
PACKAGE = "package "
"""How the names of facts begin that are versions of packages."""


@dataclass(frozen=True)
class PairedFact:
    """Something that is known of at least one of two sides."""

    name: str
    left: str
    right: str

    @property
    def differs(self) -> bool:
        return self.left != self.right


@dataclass(frozen=True)
class Side:
    """The head of a column: a name, the index of its symbol (None: none), and where it leads."""

    name: str
    mark: int | None = None
    address: str = ""
    title: str = ""
    """The whole of a name that is cut."""


@dataclass(frozen=True)
class PairedFacts:
    """The facts of two sides, ready to be shown."""

    differing: list[PairedFact]
    folded: list[PairedFact]
    """Others that differ, shown when they are opened."""
    same: list[PairedFact]
    differing_count: int
    same_count: int

    @property
    def known(self) -> int:
        """Return how many facts there are of both together."""
        return self.differing_count + self.same_count

    @property
    def more(self) -> int:
        """Return how many differing facts are left out."""
        return self.differing_count - len(self.differing) - len(self.folded)

    @property
    def more_same(self) -> int:
        return self.same_count - len(self.same)


def make_paired_facts(facts: Iterable[PairedFact], search_text: str = "") -> PairedFacts:
    """Part the facts that contain all words of `search_text` into those that differ and others.

    Packages come last among those that differ: there may be hundreds of them.
    """
    words = search_text.lower().split()
    chosen = [
        fact
        for fact in facts
        if all(word in f"{fact.name} {fact.left} {fact.right}".lower() for word in words)
    ]
    differing = sorted((fact for fact in chosen if fact.differs), key=_is_of_package)
    shown = [_shorten(fact) for fact in differing[:MOST_FACTS]]
    open_count = MOST_FACTS if words else MOST_OPEN
    same = [fact for fact in chosen if not fact.differs]
    return PairedFacts(
        shown[:open_count],
        shown[open_count:],
        [_shorten(fact) for fact in same[:MOST_FACTS]],
        len(differing),
        len(same),
    )


def pair_facts(left: Mapping[str, str], right: Mapping[str, str]) -> list[PairedFact]:
    """Return each fact of either side, those of the left side first; a dash stands for none."""
    names = [*left, *(name for name in right if name not in left)]
    return [
        PairedFact(name, left.get(name) or numbers.MISSING, right.get(name) or numbers.MISSING)
        for name in names
    ]


def pair_values(
    left: Mapping[str, Iterable[str]], right: Mapping[str, Iterable[str]]
) -> list[PairedFact]:
    """Return each fact of which either side has values, by name, with all values of both."""
    return [
        PairedFact(name, name_values(left.get(name, ())), name_values(right.get(name, ())))
        for name in sort_naturally(left.keys() | right.keys())
    ]


def name_values(values: Iterable[str]) -> str:
    """Return all values as text, many of them in lines; a dash where there are none."""
    names = sort_naturally(values)
    return (", " if len(names) <= MOST_VALUES else "\n").join(names) or numbers.MISSING


def _is_of_package(fact: PairedFact) -> bool:
    """Return whether a fact is a package's version; an environment's name may stand before it."""
    return fact.name.rpartition(": ")[2].startswith(PACKAGE)


def _shorten(fact: PairedFact) -> PairedFact:
    """Return a fact whose texts of many lines are cut to those that the other side lacks."""
    left, right = fact.left.split("\n"), fact.right.split("\n")
    if not fact.differs:
        return PairedFact(fact.name, cut_lines(left), cut_lines(right))
    return PairedFact(
        fact.name, cut_lines(_keep_missing(left, right)), cut_lines(_keep_missing(right, left))
    )


def _keep_missing(lines: list[str], others: list[str]) -> list[str]:
    if len(lines) < 2 and len(others) < 2:
        return lines
    known = set(others)
    missing = [line for line in lines if line not in known]
    if not missing or len(missing) == len(lines):
        return lines
    return [f"of {len(lines):,}:", *missing]


def cut_lines(lines: list[str]) -> str:
    """Return the first lines as one text that a cell of a table can hold."""
    text = "\n".join(lines[:MOST_LINES])
    cut = text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
    more = len(lines) - MOST_LINES
    return f"{cut}\n… and {more:,} more" if more > 0 else cut
