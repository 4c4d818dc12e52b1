"""The schedulers that Tare can submit jobs to."""

from runners.schedulers.base import (
    PLACEHOLDERS,
    Failure,
    JobEnding,
    PartitionFacts,
    Scheduler,
    Status,
)
from runners.schedulers.direct import Direct
from runners.schedulers.grid_engine import GridEngine
from runners.schedulers.slurm import Slurm

SCHEDULERS: dict[str, type[Scheduler]] = {
    "slurm": Slurm,
    "grid_engine": GridEngine,
    "direct": Direct,
}

__all__ = [
    "PLACEHOLDERS",
    "SCHEDULERS",
    "Direct",
    "Failure",
    "GridEngine",
    "JobEnding",
    "PartitionFacts",
    "Scheduler",
    "Slurm",
    "Status",
]
