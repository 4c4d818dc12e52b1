"""Nodes: which of them count as one, and the mean of values on each."""

import statistics
from collections.abc import Iterable, Sequence

from experiments.statistics.values import Sample


def name_nodes(samples: Sequence[Sample], *, paired: bool) -> dict[str, str]:
    """Return the name of what each node counts as: itself, or several nodes that count as one.

    Nodes on which runs of one block ran count as one, because what the block shows is of them all.
    Empty if the node of any run is not known.
    """
    if not all(sample.node for sample in samples):
        return {}
    counts_as = {sample.node: {sample.node} for sample in samples}
    if paired:
        nodes_by_block: dict[str, set[str]] = {}
        for sample in samples:
            nodes_by_block.setdefault(sample.block, set()).add(sample.node)
        for nodes in nodes_by_block.values():
            joined = set().union(*(counts_as[node] for node in nodes))
            counts_as |= dict.fromkeys(joined, joined)
    return {node: " and ".join(sorted(joined)) for node, joined in counts_as.items()}


def average_by_name(named_values: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the mean of the values of each name, the names in their order."""
    values_by_name: dict[str, list[float]] = {}
    for name, value in named_values:
        values_by_name.setdefault(name, []).append(value)
    return {name: statistics.fmean(values_by_name[name]) for name in sorted(values_by_name)}
