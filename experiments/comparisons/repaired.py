"""Blocks that a second job has completed: their runs are further apart than those of others."""

from __future__ import annotations

from experiments.models import Experiment


def repaired_blocks(experiment: Experiment) -> tuple[int, int]:
    """Return how many blocks were completed by a second job, and how many of those on any node."""
    nodes = experiment.jobs.exclude(repairs=None).values_list("repairs__block", "node")
    blocks: dict[int, bool] = {}
    for block, node in nodes:
        blocks[block] = blocks.get(block, False) or not node
    return len(blocks), sum(blocks.values())
