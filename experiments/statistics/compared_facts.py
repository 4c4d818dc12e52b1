"""What the snapshots of both sides of a pair say: which facts differ, and how grave that is.

`experiments/fact_comparison.py` compares them, by the table of docs/confounders.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from experiments.natural_order import make_natural_key

FactGrade = Literal["blocking", "likely", "cosmetic"]
GRADES: tuple[FactGrade, ...] = ("blocking", "likely", "cosmetic")
MOST_IN_STAMP = 4
"""Facts that the reason of a stamp names; further ones are counted: panel and files have them."""


@dataclass(frozen=True)
class FactDifference:
    """A fact that is not known to be the same on both sides."""

    fact: str
    on_baseline: str
    in_environment: str
    """Values of all blocks in which it differs; "" where the side does not know it."""
    pairs: int
    """In how many blocks it differs; of independent runs 1."""
    grade: FactGrade
    key: str
    """Of its row in the table."""
    is_waived: bool = False
    """A person let it pass before the launch, so that it is no longer blocking."""

    @property
    def is_known(self) -> bool:
        """Return whether both sides know the fact."""
        return bool(self.on_baseline and self.in_environment)


@dataclass(frozen=True)
class ComparedFacts:
    """The facts of one environment and the baseline, for one workload and scale."""

    of: int
    """How many facts the table has."""
    compared: int
    """How many of them both sides know in every block."""
    pairs: int
    """In how many blocks both runs have a snapshot; of independent runs 1."""
    paired: bool
    differences: tuple[FactDifference, ...]
    """The gravest first."""
    more: int = 0
    """How many further ones are not kept."""

    @property
    def blocking(self) -> list[FactDifference]:
        return [row for row in self.differences if row.grade == "blocking"]

    @property
    def in_natural_order(self) -> list[FactDifference]:
        """Return the differences as they are listed for people: by grade, then package2 before 10.

        Files have them as they are stored, so that what was exported once is exported again.
        """
        return sorted(
            self.differences,
            key=lambda row: (GRADES.index(row.grade), make_natural_key(row.fact)),
        )

    @property
    def confounding(self) -> list[FactDifference]:
        """Return those that stamp the verdict: the blocking and the likely ones."""
        return [row for row in self.in_natural_order if row.grade != "cosmetic"]

    @property
    def sentences(self) -> list[str]:
        """Return a line for each of those that stamp the verdict."""
        return [self.describe(row) for row in self.confounding]

    @property
    def first_sentences(self) -> list[str]:
        """Return a line for each of the first that stamp the verdict, and one that counts others.

        Two environments with other images can differ in hundreds of packages.
        """
        first, others = self.sentences[:MOST_IN_STAMP], self.confounding[MOST_IN_STAMP:]
        if not others:
            return first
        more = f"{len(others)} more fact{'s' * (len(others) > 1)}"
        return [*first, f"and {more}, listed in “Facts compared”"]

    @property
    def extent(self) -> str:
        """Return how many facts could be compared, as a sentence."""
        if not self.pairs:
            return f"None of {self.of} facts could be compared: no snapshots of both sides."
        return f"{self.compared} of {self.of} facts could be compared{self._where}."

    @property
    def columns(self) -> dict[str, int | str]:
        """Return the columns that files have of it."""
        named: dict[str, list[str]] = {"blocking": [], "likely": [], "cosmetic": []}
        for row in self.differences:
            named[row.grade].append(row.fact)
        return {
            "facts_compared": self.compared,
            "facts_of": self.of,
            **{f"facts_{grade}": "; ".join(names) for grade, names in named.items()},
        }

    @property
    def _where(self) -> str:
        return " in every block" if self.paired and self.pairs > 1 else ""

    def describe(self, row: FactDifference) -> str:
        """Return a difference as a line, with the number of blocks where these are not all."""
        where = self.describe_where(row)
        return (
            f"{row.fact}: {row.on_baseline or 'not known'} on the baseline, "
            f"{row.in_environment or 'not known'} here{where and f' ({where})'}"
        )

    def describe_where(self, row: FactDifference) -> str:
        """Return in how many blocks a fact differs; "" for all of them."""
        if row.pairs == self.pairs:
            return ""
        return f"in {row.pairs} of {self.pairs} blocks"
