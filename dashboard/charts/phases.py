"""The phases of a run: their order, and their colours on every page and plot."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

COLOURS = {
    "container start": "container",
    "start": "start",
    "snapshot": "snapshot",
    "waiting for the other instances": "waiting",
    "import": "import",
    "build": "build",
    "first step": "first",
    "burn-in": "warm-up",
    "steady state": "steady",
    "training": "training",
    "evaluation": "evaluation",
    "dropping pages": "pages",
    "report": "report",
    "end": "end",
    "record": "snapshot",
}
"""Phase -> its colour's name, in the order in which a program goes through them."""
RENAMED = {"burn-in": "warm-up"}
"""What pages call a phase that has another name in the files of runs."""
MEASURED = ("steady state", "training")
"""What the verdicts are about; beside it nobody would see the rest of a bar."""
OTHERS = 3
"""Colours for phases that only a user's own program knows."""


def describe_phase(name: str) -> str:
    """Return what pages call a phase."""
    return RENAMED.get(name, name)


def choose_css_class(name: str) -> str:
    """Return the CSS class that colours a phase, the same on every page."""
    return f"phase-{COLOURS.get(name) or f'other-{zlib.crc32(name.encode()) % OTHERS}'}"


def sort_by_time(names: Iterable[str]) -> list[str]:
    """Return names in the order of time; unknown ones come last, by name."""
    places = list(COLOURS)
    return sorted(names, key=lambda n: (places.index(n) if n in COLOURS else len(places), n))
