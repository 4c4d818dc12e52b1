"""Nodes: which of them count as one, and the mean of values on each."""

import statistics
from collections.abc import Iterable, Sequence

from experiments.statistics.values import JOINT, Sample


def name_nodes(samples: Sequence[Sample], *, paired: bool) -> dict[str, str]:
    """Return the name of what each node counts as: itself, or several nodes that count as one.

    Nodes on which one run ran, or runs of one block, count as one, because what it shows is of them
    all; so do two such sets with a node in common, since what that node adds is in both (connected
    components). Empty if the node of any run is not known.
    """
    if not all(sample.node for sample in samples):
        return {}
    sets: dict[str, set[str]] = {}
    for sample in samples:
        unit = sample.block if paired else sample.run
        sets.setdefault(unit, set()).update((sample.node, *sample.nodes))
    counts_as: dict[str, set[str]] = {}
    for nodes in sets.values():
        joined = nodes.union(*(counts_as[node] for node in nodes if node in counts_as))
        counts_as |= dict.fromkeys(joined, joined)
    return {node: JOINT.join(sorted(joined)) for node, joined in counts_as.items()}


def average_by_name(named_values: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the mean of the values of each name, the names in their order."""
    values_by_name: dict[str, list[float]] = {}
    for name, value in named_values:
        values_by_name.setdefault(name, []).append(value)
    return {name: statistics.fmean(values_by_name[name]) for name in sorted(values_by_name)}
