"""Which studies an address chooses, and what of each: the state of the page Across experiments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from django.http import QueryDict

from dashboard.lists import MOST_COMPARED
from dashboard.typed_requests import parse_whole_number

EXPERIMENT, TABLE, LABEL = "e", "t", "of"
ENVIRONMENT, CONFIGURATION = "environment-", "only-"
"""What the names of a study's own choices begin with; the study's key follows: "only-e12"."""


@dataclass(frozen=True)
class StudyChoice:
    """What an address says; nothing of it has been looked up."""

    experiments: list[int] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)
    label: str = ""
    """What the container is called over all studies; "" for the proposal."""
    environments: dict[str, str] = field(default_factory=dict)
    """The name of the environment that the reader has chosen, by the study's key."""
    configurations: dict[str, list[str]] = field(default_factory=dict)
    """The names of those that are shown alone, by the study's key."""
    unreadable: int = 0
    """How many keys are no numbers."""
    repeated: list[str] = field(default_factory=list)
    """Keys of studies that were chosen twice."""
    left_out: int = 0
    """How many studies were more than the page shows."""

    @property
    def keys(self) -> list[str]:
        return [
            *(f"{EXPERIMENT}{pk}" for pk in self.experiments),
            *(f"{TABLE}{pk}" for pk in self.tables),
        ]

    def make_query(self, *, without: str = "") -> str:
        """Return the address's query, without one of the studies."""
        parts = [(key[0], key[1:]) for key in self.keys if key != without]
        if self.label:
            parts.append((LABEL, self.label))
        for key in self.keys:
            if key == without:
                continue
            if name := self.environments.get(key):
                parts.append((f"{ENVIRONMENT}{key}", name))
            parts += [(f"{CONFIGURATION}{key}", name) for name in self.configurations.get(key, [])]
        return urlencode(parts)


def read_choice(query: QueryDict) -> StudyChoice:
    """Return what an address chooses: each study once, and at most `MOST_COMPARED`."""
    texts = [(kind, text) for kind in (EXPERIMENT, TABLE) for text in query.getlist(kind) if text]
    numbers = [(kind, parse_whole_number(text)) for kind, text in texts]
    known = [(kind, number) for kind, number in numbers if number is not None]
    unique = list(dict.fromkeys(known))
    shown = unique[:MOST_COMPARED]
    keys = [f"{kind}{number}" for kind, number in shown]
    chosen = {key: query.get(f"{ENVIRONMENT}{key}", "") for key in keys}
    only = {key: list(dict.fromkeys(query.getlist(f"{CONFIGURATION}{key}"))) for key in keys}
    return StudyChoice(
        experiments=[number for kind, number in shown if kind == EXPERIMENT],
        tables=[number for kind, number in shown if kind == TABLE],
        label=query.get(LABEL, ""),
        environments={key: name for key, name in chosen.items() if name},
        configurations={key: names for key, names in only.items() if any(names)},
        unreadable=len(numbers) - len(known),
        repeated=_find_repeated([f"{kind}{number}" for kind, number in known], keys),
        left_out=len(unique) - len(shown),
    )


def _find_repeated(named: Sequence[str], shown: Sequence[str]) -> list[str]:
    return [key for key in shown if named.count(key) > 1]
