"""The names of nodes by the keys of the plan, where rows here have other ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from experiments.models import Experiment
from experiments.provenance.prov_graph import Node, name_node


def name_by_plan(nodes: Iterable[Node], experiment: Experiment) -> Iterator[Node]:
    """Yield the nodes; workloads and environments are named as where the plan was made.

    A name stands for the same thing in the file of a bundle and in that of its import.
    """
    names = {
        name_node(kind, pk): name_node(kind, key)
        for kind, rows in (("workload", "workloads"), ("environment", "environments"))
        for pk, key in ((experiment.bundle_keys or {}).get(rows) or {}).items()
    }
    for node in nodes:
        links = tuple(
            replace(link, target=names.get(link.target, link.target)) for link in node.links
        )
        yield replace(node, id=names.get(node.id, node.id), links=links) if names else node
