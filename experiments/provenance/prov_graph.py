"""The parts of a provenance graph, in the terms of W3C PROV: things, what made them, for whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any
from urllib.parse import quote


class Kind(StrEnum):
    """What a node is, by PROV's data model."""

    ENTITY = "entity"
    ACTIVITY = "activity"
    AGENT = "agent"


class Relation(StrEnum):
    """How a node depends on another one; the values are PROV's own terms."""

    USED = "used"
    GENERATED_BY = "wasGeneratedBy"
    DERIVED_FROM = "wasDerivedFrom"
    INFORMED_BY = "wasInformedBy"
    ASSOCIATED_WITH = "wasAssociatedWith"
    ATTRIBUTED_TO = "wasAttributedTo"
    ON_BEHALF_OF = "actedOnBehalfOf"
    AT_LOCATION = "atLocation"


@dataclass(frozen=True)
class Link:
    """An arrow from a node to what it depends on; `plan` is by what an agent worked."""

    relation: Relation
    target: str
    plan: str = ""


@dataclass(frozen=True)
class Page:
    """What page shows a node: its kind, such as "run", and the key of its row."""

    kind: str
    key: str | int = ""


@dataclass(frozen=True)
class Node:
    """A thing, something that happened, or somebody, with what it depends on."""

    id: str
    kind: Kind
    type: str
    """What it is, in a word or two: "run", "image", "cluster account"."""
    title: str
    details: Mapping[str, Any] = field(default_factory=dict)
    """What is known of it, by name; numbers, texts, and None for what is not known."""
    links: tuple[Link, ...] = ()
    page: Page | None = None
    prov_type: str = ""
    """PROV's own type where there is one: Plan, Person, SoftwareAgent, Collection, Location."""
    began_at: str = ""
    ended_at: str = ""
    place: str = ""
    """In which environment, where several nodes would look alike."""

    @property
    def description(self) -> str:
        """Return what it is, with its place: "runs in Apptainer"."""
        return f"{self.type} in {self.place}" if self.place else self.type

    def replace_texts(self, change: Callable[[str], str]) -> Node:
        """Return the node with each of its texts changed, as where names are hidden."""
        details = {
            name: change(value) if isinstance(value, str) else value
            for name, value in self.details.items()
        }
        return replace(self, title=change(self.title), place=change(self.place), details=details)


def name_node(*parts: str | int) -> str:
    """Return the name of a node in its study: of characters that every format takes."""
    return "-".join(quote(str(part), safe="") for part in parts)


def link_all(relation: Relation, targets: Sequence[str]) -> tuple[Link, ...]:
    """Return the same arrow to each target; "" is none."""
    return tuple(Link(relation, target) for target in dict.fromkeys(targets) if target)
