"""Places the nodes of a graph without circles in layers, so that all arrows point down.

The method of Sugiyama, Tagawa and Toda (1981): layers by the longest path, an invisible point in
each layer that an arrow passes, orders with few crossings by the means of the neighbours, and
places as near to these means as the widths allow. The same graph is always placed alike.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping
from itertools import pairwise

Graph = Mapping[str, set[str]]
SWEEPS = 40
ROOM = 1.05
"""How much wider a drawing is than its widest layer."""


def reduce_transitively(graph: Graph) -> dict[str, set[str]]:
    """Return the graph without the arrows that a longer way makes superfluous."""
    return {
        node: {n for n in below if not any(n in _reach(graph, other) for other in below - {n})}
        for node, below in graph.items()
    }


def _reach(graph: Graph, node: str) -> set[str]:
    reached: set[str] = set()
    waiting = list(graph[node])
    while waiting:
        if (current := waiting.pop()) not in reached:
            reached.add(current)
            waiting.extend(graph[current])
    return reached


class Layout:
    """The places of a graph's nodes: `layers` from the lowest, `x` the middles, `ways` the arrows.

    A way is the list of points, as names, that an arrow passes, from the upper node down. Without
    `right` the drawing is a little wider than its widest layer. A graph whose nodes `rise` has each
    as high as those above it allow; else as low as those below it.
    """

    def __init__(
        self,
        graph: Graph,
        widths: Mapping[str, float],
        *,
        left: float,
        right: float | None,
        gap: float,
        rise: bool = False,
    ) -> None:
        self.widths, self.left, self.gap = dict(widths), left, gap
        self.level: dict[str, int] = {}
        for node in sorted(graph):
            self._find_level(graph, node)
        if rise:
            self._raise_nodes(graph)
        self.ways: list[list[str]] = []
        for node in sorted(graph):
            for below in sorted(graph[node]):
                between = range(self.level[node] - 1, self.level[below], -1)
                points = [f"{node} > {below} at {level}" for level in between]
                self.level.update(zip(points, between, strict=True))
                self.widths.update(dict.fromkeys(points, 6.0))
                self.ways.append([node, *points, below])
        self.below: dict[str, list[str]] = {node: [] for node in self.level}
        self.above: dict[str, list[str]] = {node: [] for node in self.level}
        for way in self.ways:
            for upper, lower in pairwise(way):
                self.below[upper].append(lower)
                self.above[lower].append(upper)
        self.layers = self._order()
        self.right = right if right is not None else left + ROOM * self._measure_widest()
        self.x = self._place()

    def _find_level(self, graph: Graph, node: str) -> int:
        if node not in self.level:
            levels = [self._find_level(graph, below) for below in sorted(graph[node])]
            self.level[node] = 1 + max(levels, default=-1)
        return self.level[node]

    def _raise_nodes(self, graph: Graph) -> None:
        above: dict[str, list[str]] = {node: [] for node in graph}
        for node, below in graph.items():
            for other in below:
                above[other].append(node)
        for node in sorted(graph, key=lambda node: (-self.level[node], node)):
            if above[node]:
                self.level[node] = min(self.level[other] for other in above[node]) - 1

    def _measure_widest(self) -> float:
        return max(
            sum(self.widths[node] for node in layer) + self.gap * (len(layer) - 1)
            for layer in self.layers
        )

    def _order(self) -> list[list[str]]:
        layers = [
            sorted(node for node in self.level if self.level[node] == level)
            for level in range(1 + max(self.level.values(), default=0))
        ]
        best, fewest = layers, self._count_crossings(layers)
        for sweep in range(SWEEPS):
            if not fewest:
                break
            layers = [list(layer) for layer in layers]
            upwards = sweep % 2 == 0
            neighbours = self.below if upwards else self.above
            numbers = range(len(layers)) if upwards else reversed(range(len(layers)))
            place = {node: i / len(layer) for layer in layers for i, node in enumerate(layer)}
            for number in numbers:
                means = {
                    node: _mean([place[n] for n in neighbours[node]], place[node])
                    for node in layers[number]
                }
                layers[number].sort(key=lambda node: (means[node], node))
                place.update({n: i / len(layers[number]) for i, n in enumerate(layers[number])})
            self._swap_neighbours(layers)
            if (crossings := self._count_crossings(layers)) < fewest:
                best, fewest = layers, crossings
        return best

    def _swap_neighbours(self, layers: list[list[str]]) -> None:
        """Swap two that stand side by side wherever fewer arrows then cross."""
        for number, layer in enumerate(layers):
            beside = (layers[number - 1] if number else [], *layers[number + 1 : number + 2])
            place = {node: i for other in beside for i, node in enumerate(other)}
            ends = {
                node: [[place[n] for n in side[node]] for side in (self.below, self.above)]
                for node in layer
            }
            for i in range(len(layer) - 1):
                # No other arrows are moved than those of these two.
                sides = zip(ends[layer[i]], ends[layer[i + 1]], strict=True)
                pairs = [(a, b) for left, right in sides for a in left for b in right]
                if sum(a > b for a, b in pairs) > sum(a < b for a, b in pairs):
                    layer[i : i + 2] = reversed(layer[i : i + 2])

    def _count_crossings(self, layers: list[list[str]]) -> int:
        crossings = 0
        for lower, upper in pairwise(layers):
            place = {node: i for i, node in enumerate(lower)}
            passed: list[int] = []  # ends of arrows further left, in their order
            for node in upper:
                for end in sorted(place[n] for n in self.below[node]):
                    crossings += len(passed) - bisect_right(passed, end)
                    insort(passed, end)
        return crossings

    def _place(self) -> dict[str, float]:
        x: dict[str, float] = {
            node: self.left + (self.right - self.left) * (i + 0.5) / len(layer)
            for layer in self.layers
            for i, node in enumerate(layer)
        }
        for _ in range(60):
            for layer in [*self.layers, *reversed(self.layers)]:
                wanted = [
                    _mean([x[n] for n in self.below[node] + self.above[node]], x[node])
                    for node in layer
                ]
                x.update(zip(layer, self._keep_apart(layer, wanted), strict=True))
        if not x:
            return x
        leftmost = min(x[node] - self.widths[node] / 2 for node in x)
        rightmost = max(x[node] + self.widths[node] / 2 for node in x)
        shift = (self.left + self.right - leftmost - rightmost) / 2
        return {node: place + shift for node, place in x.items()}

    def _keep_apart(self, layer: list[str], wanted: list[float]) -> list[float]:
        """Return the places nearest to the wanted ones at which nothing overlaps or leaves."""
        offsets, offset = [], 0.0
        for i, node in enumerate(layer):
            if i:
                offset += (self.widths[layer[i - 1]] + self.widths[node]) / 2 + self.gap
            offsets.append(offset)
        blocks: list[tuple[float, int]] = []  # mean, members: they stand side by side
        for want, offset in zip(wanted, offsets, strict=True):
            mean, members = want - offset, 1
            while blocks and blocks[-1][0] > mean:
                other, count = blocks.pop()
                mean = (mean * members + other * count) / (members + count)
                members += count
            blocks.append((mean, members))
        if not layer:
            return []
        lowest = self.left + self.widths[layer[0]] / 2
        highest = self.right - self.widths[layer[-1]] / 2 - offsets[-1]
        starts = [min(max(mean, lowest), highest) for mean, count in blocks for _ in range(count)]
        return [start + offset for start, offset in zip(starts, offsets, strict=True)]


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
