"""A graph in which no name tells who somebody is, or on which machine a run was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from experiments.provenance.prov_graph import Node

NAMED = ("person", "node")
"""The nodes whose own names in the graph are made from names."""


def hide_names(nodes: Iterable[Node], hide: Callable[[str], str]) -> Iterator[Node]:
    """Yield the nodes with `hide` applied to each text; persons and machines get numbers."""
    numbers: dict[str, dict[str, str]] = {kind: {} for kind in NAMED}

    def rename(name: str) -> str:
        kind = name.partition("-")[0]
        known = numbers.get(kind)
        return name if known is None else known.setdefault(name, f"{kind}-{len(known) + 1}")

    for node in nodes:
        links = tuple(
            replace(link, target=rename(link.target), plan=rename(link.plan)) for link in node.links
        )
        yield replace(node.replace_texts(hide), id=rename(node.id), links=links)
