"""A graph for the eye: what there is much of, alike, becomes one node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from experiments.provenance.prov_graph import Link, Node

FOLDED = {"measured value": (5, "measured values"), "program file": (4, "program files")}
"""Of which type how many are drawn one by one, and what more of them are called together."""


def fold_nodes(nodes: Sequence[Node], most: Mapping[str, tuple[int, str]] = FOLDED) -> list[Node]:
    """Return the graph with one node instead of many of one type; arrows follow."""
    counts = Counter(node.type for node in nodes)
    together: dict[str, Node] = {}
    names: dict[str, str] = {}
    folded: list[Node] = []
    for node in nodes:
        limit, title = most.get(node.type, (0, ""))
        if not title or counts[node.type] <= limit:
            folded.append(node)
            continue
        known = together.get(node.type) or replace(
            node,
            id=f"all-{node.id}",
            title=f"{counts[node.type]:,} {title}",
            details={},
            links=(),
            prov_type="Collection",
        )
        links = tuple(dict.fromkeys([*known.links, *node.links]))
        if node.type not in together:
            folded.append(known)
        together[node.type] = replace(known, links=links)
        names[node.id] = known.id
    rows = [together.get(node.type, node) for node in folded]
    return [replace(node, links=_rename(node.links, names)) for node in rows]


def _rename(links: Sequence[Link], names: Mapping[str, str]) -> tuple[Link, ...]:
    return tuple(
        dict.fromkeys(replace(link, target=names.get(link.target, link.target)) for link in links)
    )
