"""Verdicts from jobs on several nodes, of which Tare knows the first: what that leaves open."""

from __future__ import annotations

from dataclasses import replace

from experiments.design import Scale
from experiments.statistics import Pair, Stamp


def stamp_first_nodes(pair: Pair, scale: str) -> Pair:
    """Return the pair, stamped FEW NODES where its jobs may have shared nodes that nobody knows.

    A job on several nodes counts by its first: the journal names the node that the script ran on.
    Two jobs with different first nodes count as apart, and may have had the others in common.
    """
    nodes = _count_nodes(scale)
    if nodes < 2 or pair.n_nodes < 2 or pair.ratio is None:
        return pair
    reason = (
        f"Each job ran on {nodes} nodes and counts by its first, the only one that is known: jobs "
        "that count as apart may have shared others."
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
