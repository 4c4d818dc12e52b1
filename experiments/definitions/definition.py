"""What the file of an experiment says, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from experiments.definitions.definition_fields import BARE_METAL, BY_NAME, FIELDS
from experiments.definitions.definition_problems import Problem

Place = tuple[int, int]
"""A line and a column, from 1."""
USUAL_TIME_LIMIT = 600


@dataclass(frozen=True)
class DataSetReference:
    """A data set, known by its digest; by its name where it has none yet."""

    name: str
    digest: str = ""


@dataclass(frozen=True, kw_only=True)
class WorkloadDefinition:
    """A workload: all its parameters, and the values of those that are swept."""

    name: str
    kind: str
    parameters: Mapping[str, Any]
    """Checked, with defaults filled in; files are name -> sha256."""
    time_limit_seconds: int = USUAL_TIME_LIMIT
    sweep: str = ""
    """As the form takes it: a line for each parameter."""
    data_set: DataSetReference | None = None
    data_proof: str = "looks"
    contents: Mapping[str, bytes] = field(default_factory=dict, compare=False)
    """The files that stand in the file itself, by their sha256."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentDefinition:
    """An environment: a runtime with an image, or bare metal."""

    name: str
    runtime: str = BARE_METAL
    image: str = ""
    """The digest."""
    reference: str = field(default="", compare=False)
    """What a person calls the image; a hint."""
    format: str = ""
    """Of the staged image, such as sif; "" for any."""
    mode: str = ""
    python: str = "python3"
    binds: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    setup_lines: str = ""
    is_baseline: bool = False
    is_copy: bool = False
    """Whether it is an environment of the same file once more, for an A/A test."""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """One experiment, as its file defines it."""

    values: Mapping[str, Any]
    """Field of the form -> its value, for all FIELDS, in the units that the model stores."""
    workloads: tuple[WorkloadDefinition, ...]
    environments: tuple[EnvironmentDefinition, ...]
    further_metrics: tuple[Mapping[str, Any], ...] = ()
    """As the model keeps them: metric, margin and, where it differs, margin_faster."""
    mapping: Mapping[str, Mapping[str, str]] = field(default_factory=dict, compare=False)
    """Section -> name in the file -> name on this site, from the file's own `map`."""
    places: Mapping[str, Place] = field(default_factory=dict, compare=False, repr=False)
    text: str = field(default="", compare=False, repr=False)

    def make_problem(self, path: str, message: str) -> Problem:
        """Return a problem at the place of `path`, or of what it stands in."""
        place = find_place(self.places, path)
        return Problem(path, message, *(place or (None, None)))

    def says_the_same(self, other: Definition) -> bool:
        """Return whether both define one experiment: workloads and environments have no order."""
        return self._sort() == other._sort()

    def _sort(self) -> Definition:
        return replace(
            self,
            workloads=tuple(sorted(self.workloads, key=lambda row: row.name)),
            environments=tuple(sorted(self.environments, key=lambda row: row.name)),
        )


def find_place(places: Mapping[str, Place], path: str) -> Place | None:
    """Return where a value stands; of one that is not in the file, where its parent does."""
    while path:
        if path in places:
            return places[path]
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return places.get("")


def fill_in_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all FIELDS, with defaults where there is none."""
    unknown = values.keys() - BY_NAME.keys()
    if unknown:
        raise ValueError(f"no such fields: {sorted(unknown)}")
    return {row.name: values.get(row.name, row.default) for row in FIELDS}
