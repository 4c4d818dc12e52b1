"""The addresses of the pages that show the nodes of a provenance graph, as far as a reader may."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.urls import reverse

from dashboard.access.rights import filter_readable_rows
from experiments.models import Cluster, Environment, Image, Workload
from experiments.provenance.prov_graph import Node, Page

ROWS = {
    "cluster": Cluster,
    "environment": Environment,
    "image": Image,
    "workload": Workload,
}
"""What has a page of its own that not every reader of an experiment may open."""
OF_EXPERIMENT = {
    "plan": ("experiment", "?tab=plan#details"),
    "jobs": ("experiment", "?tab=jobs#details"),
    "events": ("experiment", "?tab=events#details"),
    "comparison": ("comparison", ""),
    "methods": ("comparison", "?section=methods"),
    "section": ("comparison", "?section=full_results"),
    "exclusions": ("comparison", "?section=exclusions"),
}
OF_RUN = {"run": "", "value": "", "script": "#script", "snapshot": "#facts"}


def find_addresses(user: Any, nodes: Sequence[Node]) -> dict[str, str]:
    """Return the address of the page of each node, by the node's name; none where none may open."""
    keys: dict[Any, list[int]] = {model: [] for model in ROWS.values()}
    for node in nodes:
        if node.page and node.page.kind in ROWS:
            keys[ROWS[node.page.kind]].append(int(node.page.key))
    readable = filter_readable_rows(user, keys)
    addresses = {
        node.id: _find_address(node.page, readable) for node in nodes if node.page is not None
    }
    return {name: address for name, address in addresses.items() if address}


def _find_address(page: Page, readable: set[tuple[Any, int]]) -> str:
    if page.kind in ROWS:
        may_open = (ROWS[page.kind], page.key) in readable
        return reverse(page.kind, args=[page.key]) if may_open else ""
    if page.kind in OF_EXPERIMENT:
        view, rest = OF_EXPERIMENT[page.kind]
        return reverse(view, args=[page.key]) + rest
    if page.kind in OF_RUN:
        return reverse("run", args=[page.key]) + OF_RUN[page.kind]
    return f"?{page.key}#graph" if page.kind == "expand" and page.key else ""
