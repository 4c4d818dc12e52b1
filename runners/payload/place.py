"""Which process of its run this one is, and what it may use.

The job script says so by variables, whatever started the process: the script itself, srun or
mpirun. A program that was started alone is rank 0 of 1.
"""

from __future__ import annotations

import os
from typing import Any, Mapping, NamedTuple, Optional


class Place(NamedTuple):
    """One process of a run."""

    directory: str  # of the run: every process sees the same one
    rank: int = 0  # among all processes of the run; rank 0 reports
    size: int = 1
    local_rank: int = 0  # among those on this node
    local_size: int = 1
    nodes: int = 1
    gpus: int = 0  # that this process may use; 0: none was asked for

    @property
    def reports(self) -> bool:
        """Whether this is the process whose numbers are the run's."""
        return self.rank == 0


def find(
    spec: Mapping[str, Any], directory: str, environ: Optional[Mapping[str, str]] = None
) -> Place:
    """This process's place, by the run's spec and the variables that it was started with."""
    variables = os.environ if environ is None else environ

    def number(name: str, default: int) -> int:
        return int(variables.get("TARE_" + name, default))

    return Place(
        directory=directory,
        rank=number("RANK", 0),
        size=number("SIZE", 1),
        local_rank=number("LOCAL_RANK", 0),
        local_size=number("LOCAL_SIZE", 1),
        nodes=int(spec.get("nodes", 1)),
        gpus=int(spec.get("gpus", 0)),
    )
