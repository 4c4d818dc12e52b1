"""What a preflight says: small values, each with its cure. No I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from runners.jobs import EnvironmentSpec, Resources
from runners.untrusted import clean_text

Outcome = Literal["ok", "warning", "failed", "not applicable"]
WORST_FIRST: tuple[Outcome, ...] = ("failed", "warning", "ok", "not applicable")
WORDS_LIMIT = 1000  # characters of a tool's own words
TEXT_LIMIT = 4000  # characters


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    area: str  # "Connection", "Login node", "Partition gpu"...
    name: str  # unique in its area, and the same from check to check
    outcome: Outcome
    found: str  # in words
    cure: str = ""  # what to do about it; empty if nothing is to be done
    words: str = ""  # what the tool itself said, to be copied
    value: str = ""  # what is compared from check to check; empty for what changes by itself
    limits: str = ""  # suggested ones: how many live jobs, and seconds between status calls

    @property
    def is_bad(self) -> bool:
        return self.outcome in ("failed", "warning")

    def as_json(self) -> dict[str, str]:
        """Texts that any database takes: no NUL, no half of a character, no novel."""
        return {name: clean_text(text)[:TEXT_LIMIT] for name, text in asdict(self).items()}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Check":
        return cls(**{field.name: row.get(field.name, "") for field in fields(cls)})


@dataclass(frozen=True)
class Change:
    """One check that says something else than before; `before` or `after` is empty if it is new
    or gone."""

    area: str
    name: str
    before: str
    after: str


def worst(checks: Iterable[Check]) -> Outcome:
    """The outcome of all of them together; "not applicable" of none."""
    return min((check.outcome for check in checks), key=WORST_FIRST.index, default="not applicable")


def changes(before: Iterable[Check], after: Iterable[Check]) -> list[Change]:
    """What differs between two preflights of a cluster: outcomes, versions, limits.

    What one of them did not get to, because something else had failed, is no change.
    """
    old = {(check.area, check.name): check for check in before}
    new = {(check.area, check.name): check for check in after}
    areas = {area for area, _ in old} & {area for area, _ in new}
    broken = {check.area for check in [*old.values(), *new.values()] if check.outcome == "failed"}
    found = []
    for place in [*new, *(place for place in old if place not in new)]:
        was, now = old.get(place), new.get(place)
        if place[0] not in areas or (place[0] in broken and not (was and now)):
            continue
        if was and now and (was.outcome, was.value) == (now.outcome, now.value):
            continue
        found.append(Change(*place, was.found if was else "", now.found if now else ""))
    return found


@dataclass(frozen=True)
class PartitionSpec:
    """A partition as the catalogue has it: what forms allow an experiment to ask for."""

    nodes: int
    resources: Resources  # of one node: all its GPUs, the longest time

    @property
    def name(self) -> str:
        return self.resources.partition


@dataclass(frozen=True)
class RuntimeSpec:
    """A runtime as the catalogue has it."""

    label: str
    kind: str  # a key of RUNTIMES
    executable: str
    version: str = ""
    setup_lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Site:
    """All that the catalogue says of a cluster and that a preflight holds against it.

    `environments` are the ones to start: one for each runtime, format and mode.
    """

    work_directory: str
    setup_lines: tuple[str, ...] = ()
    partitions: tuple[PartitionSpec, ...] = ()
    runtimes: tuple[RuntimeSpec, ...] = ()
    environments: tuple[EnvironmentSpec, ...] = ()
    is_measuring: bool = False  # jobs of ours are under way there
