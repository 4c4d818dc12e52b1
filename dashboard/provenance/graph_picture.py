"""A provenance graph as boxes and arrows, placed for a picture in the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dashboard.drawings.layered_graph import Layout, reduce_transitively
from experiments.provenance.prov_graph import Node

WIDTH, HEIGHT = 158.0, 46.0
"""Pixels, of a box."""
POINT = 12.0
LAYER, GAP, MARGIN = 78.0, 14.0, 8.0
LONGEST_TYPE, LONGEST_TITLE = 25, 22
"""Characters that a box holds; the list below has the whole texts."""


@dataclass(frozen=True)
class Box:
    """A node in the picture; `x` and `y` of its upper left corner."""

    number: int
    node: Node
    x: float
    y: float
    type: str
    title: str
    address: str

    @property
    def middle(self) -> float:
        return self.x + WIDTH / 2

    @property
    def outline(self) -> str:
        """Return the outline of a box with points at its sides, as a path."""
        half = HEIGHT / 2
        return (
            f"M{self.x + POINT:.1f} {self.y:.1f}h{WIDTH - 2 * POINT:g}l{POINT:g} {half:g}"
            f"l{-POINT:g} {half:g}h{2 * POINT - WIDTH:g}l{-POINT:g} {-half:g}z"
        )

    @property
    def text_tops(self) -> tuple[float, float]:
        """Return where the two lines of text stand."""
        return self.y + 18, self.y + 35


@dataclass(frozen=True)
class Arrow:
    """A line from a node to what it depends on, and its tip, as paths."""

    path: str
    tip: str


@dataclass(frozen=True)
class Picture:
    """The picture and its size in pixels."""

    width: float
    height: float
    boxes: list[Box]
    arrows: list[Arrow]
    middle: int
    """Where in its width stands what was asked for: on a phone the page begins there."""
    box_width: float = WIDTH
    box_height: float = HEIGHT


def draw_picture(nodes: Sequence[Node], addresses: Mapping[str, str]) -> Picture:
    """Return the picture: what is asked for above, what it comes from below.

    Arrows that a longer way implies are left out. Each box leads to the address of its node, or to
    its row in the list.
    """
    names = {node.id for node in nodes}
    graph = {
        node.id: {
            target
            for link in node.links
            for target in (link.target, link.plan)
            if target in names and target != node.id
        }
        for node in nodes
    }
    layout = Layout(
        reduce_transitively(graph),
        dict.fromkeys(graph, WIDTH),
        left=MARGIN,
        right=None,
        gap=GAP,
        rise=True,
    )
    top = len(layout.layers) - 1
    boxes = [
        Box(
            number=number,
            node=node,
            x=round(layout.x[node.id] - WIDTH / 2, 1),
            y=MARGIN + (top - layout.level[node.id]) * LAYER,
            type=_shorten(node.description, LONGEST_TYPE),
            title=_shorten(node.title, LONGEST_TITLE),
            address=addresses.get(node.id) or f"#n{number}",
        )
        for number, node in enumerate(nodes, start=1)
    ]
    arrows = [_draw_arrow(layout, way, top) for way in layout.ways]
    return Picture(
        width=round(layout.right + MARGIN),
        height=2 * MARGIN + top * LAYER + HEIGHT,
        boxes=boxes,
        arrows=arrows,
        middle=round(layout.x[layout.layers[-1][0]]),
    )


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _draw_arrow(layout: Layout, way: Sequence[str], top: int) -> Arrow:
    def find_top(point: str) -> float:
        return MARGIN + (top - layout.level[point]) * LAYER

    points = [(layout.x[way[0]], find_top(way[0]) + HEIGHT)]
    for point in way[1:-1]:
        points += [(layout.x[point], find_top(point)), (layout.x[point], find_top(point) + HEIGHT)]
    x, y = layout.x[way[-1]], find_top(way[-1]) - 2
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise([*points, (x, y - 7)]):
        bend = (y0 + y1) / 2
        path += (
            f"L{x1:.1f} {y1:.1f}"
            if x0 == x1
            else f"C{x0:.1f} {bend:.1f} {x1:.1f} {bend:.1f} {x1:.1f} {y1:.1f}"
        )
    return Arrow(path, f"M{x:.1f} {y:.1f}l-4 -8h8z")
