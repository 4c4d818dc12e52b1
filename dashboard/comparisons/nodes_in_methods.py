"""Sentences on the nodes that verdicts rest on, for the paragraphs on methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.statistics import Estimand, Pair
from experiments.statistics.verdicts import FEWEST


def describe_nodes(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield on how many nodes the runs ran, and what the verdicts speak of.

    Nothing where no node is known and no plan says what they were to speak of.
    """
    estimands = {pair.estimand for pair in pairs}
    counts = sorted({pair.n_nodes for pair in pairs if pair.n_nodes})
    if Estimand.PARTITION in estimands:
        yield (
            "By the plan the verdicts speak of the partition: the logarithms of the ratios were "
            "averaged on each node first, each node counting once, and the intervals are Student’s "
            "t intervals of these means."
        )
    elif Estimand.NODES in estimands:
        yield (
            "By the plan the verdicts speak of the nodes that the runs ran on, and not of other "
            "nodes of the partition."
        )
    if not counts:
        return
    unit = "blocks" if all(pair.paired for pair in pairs) else "runs"
    first, last = counts[0], counts[-1]
    sets = any(pair.has_sets_of_nodes for pair in pairs)
    text = f"Each comparison rests on {unit} from {_describe_range(first, last, sets=sets)}"
    if sets:
        text += (
            "; jobs on several nodes with any of them in common count as one set, since what a "
            "node adds is in all of them"
        )
    if any(pair.nodes_as_independent for pair in pairs):
        text += (
            f"; {unit} that share a node count as independent, which holds for these nodes and, if "
            "the ratio differs from node to node, not for others"
        )
    if Estimand.PARTITION in estimands and first < FEWEST:
        text += f"; fewer than {FEWEST} tell little about how much nodes differ"
    if unknown := sum(not pair.n_nodes for pair in pairs):
        text += f"; of {unknown} the nodes are not known"
    yield f"{text}."


def _describe_range(first: int, last: int, *, sets: bool) -> str:
    one, many = ("set of nodes", "sets of nodes") if sets else ("node", "nodes")
    if first == last:
        return f"1 {one}" if first == 1 else f"{first} {many}"
    return f"{first} to {last} {many}"
