"""The picture of floors and rooms, docs/rooms.svg, drawn from what the modules really import.

After a change that is meant, draw it anew with `python -m tests.draw_rooms`.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import pairwise

from dashboard.drawings.layered_graph import Layout, reduce_transitively
from tests.source_tree import BASE, FLOORS, imports_between_rooms

PICTURE = BASE / "docs" / "rooms.svg"
WIDTH = 1200
MARGIN, PADDING = 16, 18
ROOM_HEIGHT, LAYER = 30, 66  # pixels: a box, and from one layer to the next
HEAD = 62  # pixels from a floor's upper edge to its first layer
PURPOSE = {
    "dashboard": "the Django project and every page",
    "experiments": "the domain: models, plan, life of a run, statistics",
    "runners": "a library without Django: reaches clusters, renders jobs",
    "standalone": "what make demo supervises; no other floor knows it",
}
STYLE = """
  text { font: 13px system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif; fill: #1c2430; }
  .title { font-size: 19px; font-weight: 650; }
  .purpose, .shared-title { fill: #5a6675; }
  .floor { fill: #f5f7fa; stroke: #d3dae3; }
  .room { fill: #ffffff; stroke-width: 1.5; }
  .module { stroke-dasharray: 4 3; }
  .foot { fill: none; stroke-width: 1; opacity: 0.85; }
  .dashboard { stroke: #2f6fb5; } .experiments { stroke: #2c8466; }
  .runners { stroke: #a9631d; } .standalone { stroke: #7a5ba6; }
  .arrow { fill: none; stroke-width: 1.4; opacity: 0.75; }
  .between { fill: none; stroke: #5a6675; stroke-width: 3; }
  .head { fill: #5a6675; stroke: none; }
  .tip { stroke: none; }
  .tip.dashboard { fill: #2f6fb5; } .tip.experiments { fill: #2c8466; }
  .tip.runners { fill: #a9631d; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #12161c; }
    text { fill: #e6eaf0; }
    .purpose, .shared-title { fill: #9aa7b6; }
    .floor { fill: #1a2029; stroke: #333d4a; }
    .room { fill: #232b36; }
    .dashboard { stroke: #6fa8e6; } .experiments { stroke: #5cc39d; }
    .runners { stroke: #e0a05a; } .standalone { stroke: #b39ae0; }
    .between { stroke: #9aa7b6; } .head { fill: #9aa7b6; }
    .tip.dashboard { fill: #6fa8e6; } .tip.experiments { fill: #5cc39d; }
    .tip.runners { fill: #e0a05a; }
  }
"""
LEGEND = (
    "Solid: a package. Dashed: a single module.",
    "An arrow points to what is imported; arrows that a longer way implies are left out.",
)
SHARED = "shared"


class Floor:
    """One floor: its rooms in layers, and at its foot the modules that import no room of it."""

    def __init__(self, name: str, *, left: float, width: float) -> None:
        self.name, self.left, self.width, self.top = name, left, width, 0.0
        every_import = imports_between_rooms()
        graph = {
            room.removeprefix(f"{name}."): {
                other.removeprefix(f"{name}.") for other in below if other.startswith(f"{name}.")
            }
            for room, below in every_import.items()
            if room.startswith(f"{name}.")
        }
        self.packages = {room for room in graph if (BASE / name / room).is_dir()}
        self.shared = _find_shared(graph, self.packages)
        together: dict[str, set[str]] = {SHARED: set()}
        for room, below in graph.items():
            if room not in self.shared:
                together[room] = {SHARED if other in self.shared else other for other in below}
        self.graph = reduce_transitively(together)
        rows = _break_lines(sorted(self.shared), width - 2 * PADDING)
        self.rows = rows
        arrows = {
            room: {f"{SHARED} for {room}" if n == SHARED else n for n in below}
            for room, below in self.graph.items()
            if room != SHARED
        }
        ports = sorted({n for below in arrows.values() for n in below if n.startswith(SHARED)})
        # All rooms stand above the shared modules, also those that need none of them.
        rooms = {room: below or {f"{SHARED} for {room}"} for room, below in arrows.items()}
        self.unused = {f"{SHARED} for {room}" for room, below in arrows.items() if not below}
        rooms |= {port: set() for port in [*ports, *self.unused]}
        self.layout = Layout(
            rooms,
            {room: 6.0 if room.startswith(SHARED) else _width(self._label(room)) for room in rooms},
            left=left + PADDING,
            right=left + width - PADDING,
            gap=16,
        )
        self.layers = len(self.layout.layers) - 1
        self.height = HEAD + self.layers * LAYER + 24 + 24 * len(rows) + 14

    def _label(self, room: str) -> str:
        return room if room in self.packages else f"{room}.py"

    def _y(self, level: int) -> float:
        """Return the upper edge of a layer's boxes; of layer 0, of the frame of shared modules."""
        return self.top + HEAD + (self.layers - level) * LAYER

    def draw(self, top: float) -> Iterator[str]:
        self.top = top
        yield (
            f'<rect class="floor" x="{self.left:g}" y="{top:g}" width="{self.width:g}"'
            f' height="{self.height:g}" rx="10"/>'
        )
        yield _text(self.left + PADDING, top + 30, self.name + "/", "title")
        yield _text(self.left + PADDING, top + 49, PURPOSE[self.name], "purpose")
        for way in self.layout.ways:
            if way[-1] not in self.unused:
                yield from self._draw_arrow(way)
        for layer in self.layout.layers[1:]:
            for room in layer:
                if " > " not in room:
                    yield from self._draw_room(room)
        if self.rows:
            yield from self._draw_shared()

    def _draw_room(self, room: str) -> Iterator[str]:
        label, x, y = self._label(room), self.layout.x[room], self._y(self.layout.level[room])
        kind = f"room {self.name}" + (" module" if label.endswith(".py") else "")
        yield _box(x, y, _width(label), kind)
        yield _text(x, y + 20, label, anchor="middle")

    def _draw_arrow(self, way: list[str]) -> Iterator[str]:
        x, level = self.layout.x, self.layout.level
        points = [(x[way[0]], self._y(level[way[0]]) + ROOM_HEIGHT)]
        for point in way[1:-1]:
            points += [(x[point], self._y(level[point])), (x[point], self._y(level[point]) + 30)]
        end = x[way[-1]], self._y(level[way[-1]]) - 2
        path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
        for (x0, y0), (x1, y1) in pairwise([*points, (end[0], end[1] - 6)]):
            if x0 == x1:
                path += f"L{x1:.1f} {y1:.1f}"
            else:
                bend = (y0 + y1) / 2
                path += f"C{x0:.1f} {bend:.1f} {x1:.1f} {bend:.1f} {x1:.1f} {y1:.1f}"
        yield f'<path class="arrow {self.name}" d="{path}"/>'
        yield _tip(*end, f"tip {self.name}")

    def _draw_shared(self) -> Iterator[str]:
        y = self._y(0)
        yield (
            f'<rect class="foot module {self.name}" x="{self.left + PADDING:g}" y="{y:g}"'
            f' width="{self.width - 2 * PADDING:g}" height="{24 + 24 * len(self.rows):g}" rx="6"/>'
        )
        yield _text(
            self.left + PADDING + 12,
            y + 18,
            "single modules that import no room of this floor",
            "shared-title",
        )
        for number, row in enumerate(self.rows):
            yield _text(self.left + PADDING + 12, y + 40 + 24 * number, row)


def _find_shared(graph: dict[str, set[str]], packages: set[str]) -> set[str]:
    """Return the single modules below which there are single modules only."""
    shared = set(graph) - packages
    while outside := {room for room in shared if not graph[room] <= shared}:
        shared -= outside
    return shared


def _break_lines(names: list[str], width: float) -> list[str]:
    rows: list[str] = []
    for name in names:
        longer = f"{rows[-1]}    {name}.py" if rows else ""
        if rows and len(longer) * 7.1 < width - 24:
            rows[-1] = longer
        else:
            rows.append(f"{name}.py")
    return rows


def _width(label: str) -> float:
    return round(len(label) * 7.3 + 26)


def _box(x: float, y: float, width: float, kind: str) -> str:
    return (
        f'<rect class="{kind}" x="{x - width / 2:.1f}" y="{y:g}" width="{width:g}"'
        f' height="{ROOM_HEIGHT}" rx="6"/>'
    )


def _tip(x: float, y: float, kind: str, size: float = 4.5) -> str:
    return f'<path class="{kind}" d="M{x:.1f} {y:.1f}l{-size:g} {-2 * size:g}h{2 * size:g}z"/>'


def _text(x: float, y: float, text: str, kind: str = "", *, anchor: str = "") -> str:
    attributes = f' class="{kind}"' if kind else ""
    if anchor:
        attributes += f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:g}" xml:space="preserve"{attributes}>{escape(text)}</text>'


def _rooms_imported_by(floor: str) -> set[str]:
    """Return the rooms of other floors that a floor imports, "runners.workloads"."""
    rooms = imports_between_rooms().items()
    imported = {other for room, below in rooms if room.startswith(f"{floor}.") for other in below}
    return {other for other in imported if not other.startswith(f"{floor}.")}


def draw() -> str:
    """Return the picture as SVG: the pages above, the domain and the library side by side."""
    inner = WIDTH - 2 * MARGIN
    aisle = 64  # between two floors, for the arrow from one to the other
    dashboard = Floor("dashboard", left=MARGIN, width=inner)
    experiments = Floor("experiments", left=MARGIN, width=round(inner * 0.53))
    runners = Floor(
        "runners",
        left=MARGIN + experiments.width + aisle,
        width=inner - experiments.width - aisle,
    )
    second = MARGIN + dashboard.height + aisle
    lines = [*dashboard.draw(MARGIN), *experiments.draw(second), *runners.draw(second)]
    third = second + runners.height + 24
    standalone = Floor("standalone", left=runners.left, width=runners.width)
    lines += standalone.draw(third)
    lines += [
        _text(WIDTH - MARGIN - PADDING, MARGIN + 30 + 19 * number, text, "purpose", anchor="end")
        for number, text in enumerate(LEGEND)
    ]
    height = max(second + experiments.height, third + standalone.height) + MARGIN
    assert {
        floor: {room.partition(".")[0] for room in _rooms_imported_by(floor)} for floor in FLOORS
    } == {
        "dashboard": {"experiments", "runners"},
        "experiments": {"runners"},
        "runners": set(),
        "standalone": set(),
    }
    few = sorted(room for room in _rooms_imported_by("dashboard") if room.startswith("runners."))
    only = ", ".join(room.removeprefix("runners.") for room in few)
    x = runners.left + runners.width / 2
    lines.append(_text(x + 18, second - aisle / 2, f"only {only}", "purpose"))
    for floor in (experiments, runners):
        x = floor.left + floor.width / 2
        bottom = second - 3
        lines.append(
            f'<path class="between" d="M{x:g} {MARGIN + dashboard.height:g}V{bottom - 12:g}"/>'
        )
        lines.append(_tip(x, bottom, "head", 8))
    y, end = second + 40, runners.left - 3
    lines.append(f'<path class="between" d="M{MARGIN + experiments.width:g} {y:g}H{end - 12:g}"/>')
    lines.append(f'<path class="head" d="M{end:g} {y:g}l-16 -8v16z"/>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}"'
            f' width="{WIDTH}" height="{height:g}" role="img" aria-labelledby="title">',
            '<title id="title">The floors and rooms of Tare and what imports what</title>',
            f"<style>{STYLE}</style>",
            '<rect class="paper" width="100%" height="100%" fill="#ffffff"/>',
            *lines,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(draw())
