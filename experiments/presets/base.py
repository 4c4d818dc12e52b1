"""The data of a preset. `experiments.presets.preset_drafts` turns it into rows of the database."""

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
    reads_data: bool = True
    """Whether it reads the data set whose folder a person names for its size."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """A preset at one size: as it was published, or so small that a laptop finishes it."""

    workloads: tuple[Piece, ...]
    scales: tuple[str, ...]
    note: str = ""
    """What is smaller or other than in the publication."""
    data: str = ""
    """The data set whose folder a person may name in the form; "" where it reads none."""
    needs_data: bool = False
    """True if that folder has to be named."""
    with_data: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that are set if a folder is named."""
    repeats: int = REPEATS


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A published experiment, from which drafts can be made."""

    key: str
    title: str
    source: str
    """The place in the paper: "Table 3"."""
    paper: Paper
    question: str
    then: str
    """What the publication measured, and its result."""
    now: str
    """What Tare does differently, and why."""
    needs: tuple[str, ...]
    """Python packages without which its workloads fail."""
    metric: str
    ends_in: str
    """The part of the comparison page that shows the published table or figure."""
    sizes: Mapping[str, Size] = field(default_factory=dict)
    script: str = ""
    """The script of others that its workloads start: a person says in which folder it lies, and
    whether Tare puts its code on the cluster. "" where they start none."""
    usual_folder: str = ""
    """Where that script lies in the repository of its authors."""
    margin: float = 0.02
    warm_up: str = "fixed"


def make_timed(name: str, minutes: float, *, reads_data: bool = True, **parameters: Any) -> Piece:
    """Return a training of which only the speed counts: an accuracy would take longer."""
    return make_cnn(name, minutes, reads_data=reads_data, evaluate=False, **parameters)


def make_cnn(name: str, minutes: float, *, reads_data: bool = True, **parameters: Any) -> Piece:
    """Return a training of one network, on synthetic images unless `parameters` say otherwise."""
    return Piece(
        name=name,
        kind="cnn",
        parameters=parameters,
        time_limit_seconds=round(60 * minutes),
        reads_data=reads_data,
    )
