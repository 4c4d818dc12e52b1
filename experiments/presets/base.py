"""The data of a preset. `experiments.presets.making` turns it into rows of the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.presets.papers import Paper

FULL = "full"
LAPTOP = "laptop"
REPEATS = 5
"""Repeats of every preset: with fewer a verdict is provisional. Published ones had 3 if any."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One workload of a preset."""

    name: str
    kind: str
    parameters: Mapping[str, Any]
    time_limit_seconds: int


@dataclass(frozen=True, kw_only=True)
class Size:
    """A preset at one size: as it was published, or so small that a laptop finishes it."""

    workloads: tuple[Piece, ...]
    scales: tuple[str, ...]
    note: str = ""
    """What is smaller or other than in the publication."""
    data: str = ""
    """Which data set it reads, where somebody may say in which folder it lies..."""
    needs_data: bool = False
    """...and has to."""
    with_data: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that are set once a folder is named."""
    repeats: int = REPEATS


@dataclass(frozen=True, kw_only=True)
class Preset:
    """An experiment that somebody has published, as a draft can be made of it."""

    key: str
    title: str
    source: str
    """Where it stands in the paper: "Table 3"."""
    paper: Paper
    question: str
    then: str
    """What was measured then, and found."""
    now: str
    """What is done otherwise here, and why."""
    needs: tuple[str, ...]
    """Python packages, without which its workloads fail."""
    metric: str
    ends_in: str
    """What of the comparison page is its table or figure."""
    sizes: Mapping[str, Size] = field(default_factory=dict)
    margin: float = 0.02
    warm_up: str = "fixed"


def timed(name: str, minutes: float, **parameters: Any) -> Piece:
    """A training of which only the speed is asked: its accuracy would take longer still."""
    return cnn(name, minutes, evaluate=False, **parameters)


def cnn(name: str, minutes: float, **parameters: Any) -> Piece:
    """A training of one network; on synthetic images unless `parameters` say otherwise."""
    return Piece(
        name=name, kind="cnn", parameters=parameters, time_limit_seconds=round(60 * minutes)
    )
