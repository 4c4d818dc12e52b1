"""The values that a check of a cluster takes and returns. No I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from runners.jobs import EnvironmentSpec, Resources
from runners.untrusted import clean_text

Outcome = Literal["ok", "warning", "failed", "not applicable"]
WORST_FIRST: tuple[Outcome, ...] = ("failed", "warning", "ok", "not applicable")
MESSAGE_LIMIT = 1000  # characters of a tool's own message
TEXT_LIMIT = 4000  # characters

# Areas and a name by which later readers find what a check saw.
PARTITION = "Partition "
MACHINE = "On this machine"
ARCHITECTURE = "Architecture"


@dataclass(frozen=True)
class Check:
    """The result of checking one thing, with a cure if it is not well."""

    area: str  # "Connection", "Login node", "Partition gpu"...
    name: str  # unique in its area, and the same from check to check
    outcome: Outcome
    found: str  # in words
    cure: str = ""  # what to do about it; empty if nothing has to be done
    words: str = ""  # the tool's own message, to be copied
    value: str = ""  # compared with the previous check; empty for what always changes
    limits: str = ""  # suggested: "LIVE_JOBS SECONDS_BETWEEN_STATUS_CALLS"

    @property
    def is_bad(self) -> bool:
        return self.outcome in ("failed", "warning")

    def as_json(self) -> dict[str, str]:
        """Return the fields as texts that any database takes: valid, without NUL, not too long."""
        return {name: clean_text(text)[:TEXT_LIMIT] for name, text in asdict(self).items()}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Check":
        return cls(**{field.name: row.get(field.name, "") for field in fields(cls)})


@dataclass(frozen=True)
class Change:
    """A check whose result differs from before; `before` is empty if it is new, `after` if gone."""

    area: str
    name: str
    before: str
    after: str


def find_worst_outcome(checks: Iterable[Check]) -> Outcome:
    """Return the worst of the checks' outcomes; "not applicable" if there are no checks."""
    return min((check.outcome for check in checks), key=WORST_FIRST.index, default="not applicable")


def find_changes(before: Iterable[Check], after: Iterable[Check]) -> list[Change]:
    """Return the differences between two checks of a cluster: outcomes, versions, limits.

    What one of them did not reach, because something else had failed, is no change.
    """
    old = {(check.area, check.name): check for check in before}
    new = {(check.area, check.name): check for check in after}
    areas = {area for area, _ in old} & {area for area, _ in new}
    broken = {check.area for check in [*old.values(), *new.values()] if check.outcome == "failed"}
    differences = []
    for key in [*new, *(key for key in old if key not in new)]:
        old_check, new_check = old.get(key), new.get(key)
        if key[0] not in areas or (key[0] in broken and not (old_check and new_check)):
            continue
        if (
            old_check
            and new_check
            and (old_check.outcome, old_check.value) == (new_check.outcome, new_check.value)
        ):
            continue
        differences.append(
            Change(*key, old_check.found if old_check else "", new_check.found if new_check else "")
        )
    return differences


@dataclass(frozen=True)
class PartitionSpec:
    """A partition as the catalogue has it: what forms allow an experiment to request."""

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
    """A cluster as the catalogue has it, to be compared with the real one.

    `environments` are the ones to start: one for each runtime, format and mode.
    """

    work_directory: str
    setup_lines: tuple[str, ...] = ()
    partitions: tuple[PartitionSpec, ...] = ()
    runtimes: tuple[RuntimeSpec, ...] = ()
    environments: tuple[EnvironmentSpec, ...] = ()
    is_measuring: bool = False  # jobs of Tare's are running there
