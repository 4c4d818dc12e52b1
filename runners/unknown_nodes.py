"""Finds the names in a list of nodes that a scheduler does not know: it refuses the whole list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from runners.errors import Refused
from runners.jobs import JobSpec
from runners.schedulers import Scheduler
from runners.transports import Transport

UNKNOWN_NODE = re.compile(r"invalid node name", re.IGNORECASE)
"""How Slurm refuses it, without saying which name."""
TRIAL_SECONDS = 30
MOST_TRIALS = 40
"""One unknown name among a thousand takes 20. Names that are left then count as unknown."""


def find_unknown_nodes(transport: Transport, scheduler: Scheduler, job: JobSpec) -> list[str]:
    """Return which of the nodes that a job avoids are unknown, by trials of halves of the list.

    Raises TryAgain.
    """
    trials = 0

    def is_refused(names: Sequence[str]) -> bool:
        nonlocal trials
        trials += 1
        if trials > MOST_TRIALS:
            return True
        resources = replace(job.resources, avoided_nodes=",".join(names))
        argv = scheduler.build_trial_command(replace(job, resources=resources))
        if argv is None:
            return False
        try:
            scheduler.parse_trial(transport.run(argv, timeout=TRIAL_SECONDS))
        except Refused as refusal:
            return bool(UNKNOWN_NODE.search(f"{refusal} {refusal.details}"))
        return False

    def search(names: Sequence[str]) -> list[str]:
        if not names or not is_refused(names):
            return []
        if len(names) == 1:
            return list(names)
        half = len(names) // 2
        return [*search(names[:half]), *search(names[half:])]

    return search([name for name in job.resources.avoided_nodes.split(",") if name])
