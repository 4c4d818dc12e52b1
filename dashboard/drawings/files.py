"""Drawings as files: SVG with outlined text, PNG at 300 dpi, PDF with embedded fonts."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Sequence
from html import escape
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon as PolygonPatch

from dashboard.drawings.elements import Drawing, Line, Point, Polygon, Polyline, Text
from dashboard.drawings.typeface import FAMILY, Typeface

INCH = 25.4
DPI = 300
ANCHORS = {"start": "left", "middle": "center", "end": "right"}
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "path",
    "svg.hashsalt": "tare",  # the same figure is the same file
    "pdf.fonttype": 42,
    "font.family": [FAMILY, "DejaVu Sans"],  # the second for letters that the first lacks
    "path.simplify": False,
    "text.hinting": "none",  # widths are those of the design, in pixels too
}


def use_typeface(type_: Typeface) -> None:
    """Make matplotlib write in this typeface; every process that draws calls it first."""
    # Embedded fonts say when they were made: the same figure is to be the same file.
    os.environ.setdefault("SOURCE_DATE_EPOCH", "0")
    for path in type_.files.values():
        fontManager.addfont(str(path))
    matplotlib.rcParams.update(SETTINGS)


def write_file(pages: Sequence[Drawing], ending: str) -> bytes:
    """Return the pages as a PDF, or the only one of them as SVG or PNG."""
    file = io.BytesIO()
    if ending == "pdf":
        about = {"Title": pages[0].title, "Subject": pages[0].description, "Creator": "Tare"}
        with PdfPages(file, metadata={**about, "Producer": None, "CreationDate": None}) as pdf:
            for page in pages:
                pdf.savefig(make_figure(page), facecolor=page.ground)
        return file.getvalue()
    (page,) = pages
    figure = make_figure(page)
    if ending == "svg":
        figure.savefig(file, format="svg", facecolor=page.ground, metadata={"Date": None})
        return _describe_svg(file.getvalue().decode(), page).encode()
    figure.savefig(file, format="png", dpi=DPI, facecolor=page.ground, metadata={"Software": None})
    return file.getvalue()


def make_figure(drawing: Drawing) -> Figure:
    """Return a matplotlib figure whose data coordinates are the drawing's millimetres."""
    figure = Figure(figsize=(drawing.width / INCH, drawing.height / INCH))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(drawing.height, 0)
    for layer, element in enumerate(drawing.elements):
        match element:
            case Line() | Polyline():
                points, opacity = _list_points(element)
                axes.add_artist(
                    Line2D(
                        [x for x, _ in points],
                        [y for _, y in points],
                        linewidth=element.width,
                        color=element.colour,
                        alpha=opacity,
                        # In points, whatever the width of the line.
                        dashes=tuple(part / element.width for part in element.dash) or (None, None),
                        solid_capstyle="butt",
                        dash_capstyle="butt",
                        zorder=layer,
                    )
                )
            case Polygon():
                axes.add_artist(
                    PolygonPatch(
                        element.points,
                        closed=True,
                        facecolor=element.fill or "none",
                        edgecolor=element.edge or "none",
                        linewidth=element.width,
                        alpha=element.opacity if element.opacity < 1 else None,
                        zorder=layer,
                    )
                )
            case Text():
                axes.text(
                    *element.place,
                    element.text,
                    fontsize=element.size,
                    color=element.colour,
                    weight="bold" if element.face == "bold" else "normal",
                    style="italic" if element.face == "italic" else "normal",
                    ha=ANCHORS[element.anchor],
                    va="baseline",
                    parse_math=False,
                    zorder=layer,
                )
    return figure


def _list_points(line: Line | Polyline) -> tuple[tuple[Point, ...], float | None]:
    """Return the points of a line, and its opacity where it is not opaque."""
    if isinstance(line, Line):
        return (line.start, line.end), None
    return line.points, line.opacity if line.opacity < 1 else None


def _describe_svg(svg: str, page: Drawing) -> str:
    """Return the SVG in millimetres with its title and description, and no style sheet.

    The policy of our pages forbids one that stands in the file.
    """
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"\s*<style[^>]*>.*?</style>", "", svg, flags=re.S)
    size = f'width="{page.width}mm" height="{page.height}mm"'
    svg = re.sub(
        r'width="[\d.]+pt" height="[\d.]+pt"|height="[\d.]+pt" width="[\d.]+pt"', size, svg
    )
    about = f"<title>{escape(page.title)}</title>\n <desc>{escape(page.description)}</desc>"
    return re.sub(
        r"<svg ([^>]*)>",
        lambda match: (
            f'<svg role="img" stroke-linejoin="round" stroke-linecap="butt" {match[1]}>\n {about}'
        ),
        svg,
        count=1,
    )
