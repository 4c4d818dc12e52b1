"""Compares the facts of two sides by the table of confounders. Pure functions."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from experiments.confounder_table import (
    MOST_CACHED,
    NOT_READ,
    OF_ENDS,
    VERSION,
    Grade,
    Row,
    read_table,
)
from experiments.statistics.compared_facts import ComparedFacts, FactDifference

Facts = Mapping[str, str]
NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")
LIBRARIES = {"BLAS that answered": "BLAS", "cuDNN that was loaded": "cuDNN"}
"""What runs had loaded, and how the parity report names the library."""
THREADS = re.compile(r"threads [0-9]+")
NOTHING = "nothing"
"""Stands for what is absent, such as a package, where others of its kind were recorded."""
OF_ONE_SIDE = {"modules"}
"""Groups of which each side needs members of its own: what it lacks is no difference."""
MOST_KEPT = 200
"""Differences of a pair that are kept; further ones are counted."""
MOST_NAMED = 3
"""Values of one fact that are named."""
MOST_VALUES = 2000
"""Values of one fact on one side; where there are more they are the same, or they differ."""
LONGEST = 300
MOST_TOLERATED = 100
"""Values of a fact of independent runs that are compared within its tolerance; more are not."""
UNBALANCED = 0.5
"""Independent runs may have the same values on both sides, and one of them mostly on one side: by
more than this in its share of the runs that know the fact, it is likely to matter.
"""
UNLISTED = Row(
    "?", "?", "equal", Grade.LIKELY, Grade.LIKELY, "It is not in the table of this version.", ""
)
"""How a fact is compared that another version of Tare recorded."""
AT_HAND, AFFINITY = "CPUs at hand", "CPUs of the affinity mask"
"""Snapshots from before facts were graded know the first and not the second; later ones both."""


@dataclass
class NotedDifferences:
    """What differs in any block: values by fact, in how many, and which facts were compared."""

    baseline: dict[str, set[str]] = field(default_factory=dict)
    environment: dict[str, set[str]] = field(default_factory=dict)
    counts: Counter[tuple[str, Grade]] = field(default_factory=Counter)
    waived: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Side:
    """What one side knows: the value of each fact, of many runs all their values."""

    values: Mapping[str, str] | Mapping[str, frozenset[str]]
    parents: frozenset[str]
    """The groups, such as packages, of which it knows any member."""
    titles: frozenset[str]
    """The titles of the rows that it knows."""

    @classmethod
    def of(cls, values: Mapping[str, str] | Mapping[str, frozenset[str]]) -> Side:
        return cls(values, *_list_known(frozenset(values)))

    @property
    def is_from_before(self) -> bool:
        """Return whether it was recorded before differences could make a verdict another one."""
        return AT_HAND in self.values and AFFINITY not in self.values

    def read(self, name: str, row: Row) -> frozenset[str]:
        """Return the values of a fact, or what stands for one that is absent; empty for unknown."""
        value = self.values.get(name)
        if value is None:
            is_absent = row.patterns and row.parent in self.parents - OF_ONE_SIDE
            return frozenset({NOTHING} if is_absent else ())
        return (frozenset({value}) if isinstance(value, str) else value) - {NOT_READ}


def compare_blocks(
    pairs: Counter[tuple[int, int]], facts: Mapping[int, Facts], waived: Waived | None = None
) -> ComparedFacts:
    """Compare the runs of each block: `pairs` counts blocks by the snapshots of both runs.

    `facts` are those of each snapshot. Blocks that share both snapshots are compared once.
    """
    noted = NotedDifferences()
    compared: set[str] | None = None
    known = {pair: count for pair, count in pairs.items() if all(facts.get(key) for key in pair)}
    sides = {key: Side.of(facts[key]) for key in {key for pair in known for key in pair}}
    for (first, second), count in known.items():
        titles = _compare(sides[first], sides[second], noted, count, waived)
        compared = titles if compared is None else compared & titles
    return _sum_up(noted, compared or set(), sum(known.values()), paired=True)


def compare_runs(
    baseline: Sequence[Facts], environment: Sequence[Facts], waived: Waived | None = None
) -> ComparedFacts:
    """Compare all runs of both sides, which share no blocks, by the values that occur.

    Where these are the same, by how often they occur.
    """
    noted = NotedDifferences()
    first, second = Side.of(_merge(baseline)), Side.of(_merge(environment))
    if not first.values or not second.values:
        return _sum_up(noted, set(), 0, paired=False)
    compared = _compare(first, second, noted, 1, waived)
    _find_unbalanced(baseline, environment, noted)
    return _sum_up(noted, compared, 1, paired=False)


def list_differences(baseline: Sequence[Facts], environment: Sequence[Facts]) -> list[str]:
    """Return a line for each fact in which the runs of two environments differ, by its name."""
    return sorted(compare_runs(baseline, environment).sentences)


@dataclass(frozen=True)
class Waived:
    """The differences in software that a person let pass before the launch, with their values."""

    values: Mapping[str, tuple[str, str]]
    """By the name of the parity report: what the baseline has, and what the environment."""

    def covers(self, fact: str, baseline: frozenset[str], environment: frozenset[str]) -> bool:
        """Return whether it is about this fact, with no other values than the runs have.

        A library is inspected as it is installed, so its waiver covers whichever version was
        loaded; how many threads it starts is no matter of software.
        """
        if (library := LIBRARIES.get(fact)) in self.values:
            threads = [set(THREADS.findall(", ".join(side))) for side in (baseline, environment)]
            return library is not None and threads[0] == threads[1]
        both = self.values.get(fact.removeprefix("package "))
        if both is None:
            return False
        first, second = (NOTHING if value == "none" else value for value in both)
        return baseline == {first} and environment == {second}


def _compare(
    first: Side, second: Side, noted: NotedDifferences, count: int, waived: Waived | None
) -> set[str]:
    """Note the differences between two sides; return the titles of the rows that both know."""
    compared = set(first.titles & second.titles)
    for name in {name for name, _ in first.values.items() ^ second.values.items()}:
        row = _find_row(name)
        on_baseline, in_environment = first.read(name, row), second.read(name, row)
        is_known = bool(on_baseline and in_environment)
        agree = _agree(row, on_baseline, in_environment) if is_known else None
        if agree:
            continue
        if agree is None:
            compared.discard(row.title)
        grade = row.grade_if_unknown if agree is None else row.grade or Grade.COSMETIC
        is_waived = bool(waived and waived.covers(name, on_baseline, in_environment))
        if grade is Grade.BLOCKING and is_waived:
            grade = Grade.LIKELY
            noted.waived.add(name)
        if grade is Grade.BLOCKING and (first.is_from_before or second.is_from_before):
            grade = Grade.LIKELY  # a verdict that was published stays what it was
        noted.baseline.setdefault(name, set()).update(on_baseline)
        noted.environment.setdefault(name, set()).update(in_environment)
        noted.counts[name, grade] += count
    return compared


def _agree(row: Row, first: frozenset[str], second: frozenset[str]) -> bool | None:
    """Return whether the values of both sides are the same; None where that cannot be told."""
    if first == second:
        return True
    if are_of_two_kinds(first | second):
        return None
    # Each value is compared with each of the other side: thousands would take minutes.
    is_exact = not row.tolerance and row.compared != VERSION
    if is_exact or max(len(first), len(second)) > MOST_VALUES:
        return False
    agree: bool | None = True
    for values, others in ((first, second), (second, first)):
        for value in values:
            best = _find_best(_is_same(row, value, other) for other in others)
            if best is False:
                return False
            agree = agree and best
    return agree


def are_of_two_kinds(values: Iterable[str]) -> bool:
    """Return whether some are check sums of both ends of a file, and others of all of it."""
    return len({value.startswith(OF_ENDS) for value in values if value != NOTHING}) > 1


def _find_best(answers: Iterator[bool | None]) -> bool | None:
    best: bool | None = False
    for answer in answers:
        if answer:
            return True
        best = None if answer is None else best
    return best


def _is_same(row: Row, first: str, second: str) -> bool | None:
    if first == second:
        return True
    if row.tolerance:  # of several GPUs each has a number
        both = first.split(", "), second.split(", ")
        return len(both[0]) == len(both[1]) and all(
            _is_within(row.tolerance, read_number(one), read_number(other))
            for one, other in zip(*both, strict=True)
        )
    if row.compared == VERSION and (
        first.startswith(f"{second}.") or second.startswith(f"{first}.")
    ):
        return None
    return False


def _is_within(tolerance: float, first: float | None, second: float | None) -> bool:
    """Return whether the smaller of two numbers is the larger one but for that part of it."""
    if first is None or second is None:
        return False
    return abs(first - second) <= tolerance * max(abs(first), abs(second))


def read_number(text: str) -> float | None:
    """Return the number with which a text begins, such as "300.00 W"; None for none."""
    match = NUMBER.match(text.strip())
    number = float(match[0]) if match else math.nan
    return number if math.isfinite(number) else None


def _find_unbalanced(
    baseline: Sequence[Facts], environment: Sequence[Facts], noted: NotedDifferences
) -> None:
    """Note the facts of which both sides know the same values in plainly different shares."""
    first, second = _count_values(baseline), _count_values(environment)
    for name in first.keys() & second.keys() - noted.baseline.keys():
        counts, row = (first[name], second[name]), _find_row(name)
        values = counts[0] | counts[1]
        if len(values) < 2 or are_of_two_kinds(values):
            continue
        if (row.grade or Grade.COSMETIC) is Grade.COSMETIC:
            continue
        totals = [side.total() for side in counts]
        is_exact = len(values) > MOST_TOLERATED
        shares = (
            [
                _count_same(row, value, side, is_exact=is_exact) / total
                for side, total in zip(counts, totals, strict=True)
            ]
            for value in values
        )
        if any(abs(here - there) > UNBALANCED for here, there in shares):
            noted.counts[name, Grade.LIKELY] += 1
            noted.baseline[name], noted.environment[name] = map(_name_counts, counts)


def _count_values(runs: Sequence[Facts]) -> dict[str, Counter[str]]:
    """Return how many runs have each value of each fact. Runs that share a snapshot share facts."""
    by_id = {id(run): run for run in runs}
    counts: dict[str, Counter[str]] = {}
    for key, count in Counter(map(id, runs)).items():
        for name, value in by_id[key].items():
            if value != NOT_READ:
                counts.setdefault(name, Counter())[value] += count
    return counts


def _count_same(row: Row, value: str, counts: Counter[str], *, is_exact: bool) -> int:
    """Return how many runs have this value, or one that is the same by the table."""
    if not row.tolerance or is_exact:
        return counts[value]
    return sum(count for other, count in counts.items() if _is_same(row, value, other))


def _name_counts(counts: Counter[str]) -> set[str]:
    return {f"{value} ({count} of {counts.total()} runs)" for value, count in counts.items()}


def _merge(runs: Sequence[Facts]) -> dict[str, frozenset[str]]:
    """Return all values of each fact in these runs."""
    values: dict[str, set[str]] = {}
    for run in runs:
        for name, value in run.items():
            values.setdefault(name, set()).add(value)
    return {name: frozenset(texts) for name, texts in values.items()}


@lru_cache(maxsize=1000)
def _list_known(names: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the groups, and the titles of the rows, that a side with these facts knows.

    Most snapshots have facts of the same names.
    """
    rows = [_find_row(name) for name in names]
    parents = frozenset(row.parent for row in rows)
    groups = (row for row in read_table().compared if row.patterns and row.parent in parents)
    return parents, frozenset(row.title for row in (*rows, *groups))


@lru_cache(maxsize=MOST_CACHED)
def _find_row(name: str) -> Row:
    return read_table().find(name) or replace(UNLISTED, title=name)


def _sum_up(
    noted: NotedDifferences, compared: set[str], pairs: int, *, paired: bool
) -> ComparedFacts:
    grades: dict[str, list[Grade]] = {}
    counts: Counter[str] = Counter()
    for (name, grade), count in noted.counts.items():
        grades.setdefault(name, []).append(grade)
        counts[name] += count
    order = list(Grade)
    rows = sorted(
        (
            FactDifference(
                fact=name,
                on_baseline=_name_values(noted.baseline[name]),
                in_environment=_name_values(noted.environment[name]),
                pairs=counts[name],
                grade=min(grades[name], key=order.index).value,
                key=_find_row(name).key,
                is_waived=name in noted.waived,
            )
            for name in grades
        ),
        key=lambda row: (order.index(Grade(row.grade)), row.fact),
    )
    titles = {row.title for row in read_table().compared}
    return ComparedFacts(
        of=len(titles),
        compared=len(compared & titles),
        pairs=pairs,
        paired=paired,
        differences=tuple(rows[:MOST_KEPT]),
        more=len(rows[MOST_KEPT:]),
    )


def _name_values(values: set[str]) -> str:
    named = ", ".join(sorted(values)[:MOST_NAMED])
    more = len(values) - MOST_NAMED
    return named[:LONGEST] + (f" and {more} more" if more > 0 else "")
