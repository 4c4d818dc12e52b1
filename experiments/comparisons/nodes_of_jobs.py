"""Verdicts from jobs on several nodes of which only the first is known: what that leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from experiments.design import Scale
from experiments.statistics import Pair, Sample, Stamp


def stamp_first_nodes(pair: Pair, scale: str, samples: Sequence[Sample]) -> Pair:
    """Return the pair, stamped FEW NODES where its jobs may have shared nodes that nobody knows.

    Of most jobs on several nodes all are known, and those that share any count as one set. A job
    of which the scheduler did not tell them, or of before Tare asked, counts by its first: two with
    different first nodes count as apart, and may have had the others in common.
    """
    nodes = _count_nodes(scale)
    if nodes < 2 or pair.n_nodes < 2 or pair.ratio is None:
        return pair
    both = [run for run in samples if run.environment in (pair.environment, pair.baseline)]
    if all(len(run.nodes) >= nodes for run in both):
        return pair
    reason = (
        f"Each job ran on {nodes} nodes, and some count by their first, the only one that is known "
        "of them: jobs that count as apart may have shared others."
    )
    if Stamp.FEW_NODES not in pair.stamps:
        return replace(
            pair, stamps=(*pair.stamps, Stamp.FEW_NODES), reasons=(*pair.reasons, reason)
        )
    reasons = tuple(
        f"{why} {reason}" if stamp is Stamp.FEW_NODES else why
        for stamp, why in zip(pair.stamps, pair.reasons, strict=True)
    )
    return replace(pair, reasons=reasons)


def _count_nodes(scale: str) -> int:
    try:
        return Scale.parse(scale).nodes
    except ValueError:  # imported logs have what they have
        return 1
