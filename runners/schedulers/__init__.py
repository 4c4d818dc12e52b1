"""Ways to get a job run."""

from runners.schedulers.base import Failure, LastWord, PartitionFacts, Scheduler, Status
from runners.schedulers.direct import Direct
from runners.schedulers.slurm import Slurm

SCHEDULERS: dict[str, type[Scheduler]] = {"slurm": Slurm, "direct": Direct}

__all__ = [
    "SCHEDULERS",
    "Direct",
    "Failure",
    "LastWord",
    "PartitionFacts",
    "Scheduler",
    "Slurm",
    "Status",
]
