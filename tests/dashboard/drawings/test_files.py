"""Files of a figure: SVG, PNG and PDF show the same, at its size, with their fonts inside."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree as ET

import pytest
from PIL import Image
from pypdf import PdfReader

from dashboard.drawings.elements import Drawing, Line
from dashboard.drawings.files import use_typeface, write_file
from dashboard.drawings.forest_figures import lay_out_forest
from dashboard.drawings.themes import LIGHT
from tests.dashboard.drawings.examples import describe, get_typeface, make_pairs

MM = 25.4
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module", params=[88, 180])
def drawing(request) -> Drawing:
    type_ = get_typeface()
    use_typeface(type_)
    forest = describe(make_pairs(6))
    return lay_out_forest(forest, width=request.param, theme=LIGHT, type_=type_)[0]


def lines_of(drawing: Drawing, name: str) -> list[Line]:
    return [line for line in drawing.elements if isinstance(line, Line) and line.name == name]


def strokes(svg: bytes) -> list[tuple[str, tuple[float, ...]]]:
    """Return colour and end points, in millimetres, of each straight line of the file."""
    found = []
    for path in ET.fromstring(svg).iter(f"{SVG}path"):
        colour = re.search(r"stroke: (#[0-9a-f]{6})", path.get("style", ""))
        ends = re.fullmatch(r"M ([\d.]+) ([\d.]+)\s+L ([\d.]+) ([\d.]+)\s*", path.get("d", ""))
        if colour and ends:
            found.append((colour[1], tuple(float(end) * MM / 72 for end in ends.groups())))
    return found


def test_svg_and_png_have_each_interval_where_the_drawing_has_it(drawing: Drawing) -> None:
    known = strokes(write_file([drawing], "svg"))
    image = Image.open(io.BytesIO(write_file([drawing], "png"))).convert("RGB")
    for line in lines_of(drawing, "thick"):
        wanted = (*line.start, *line.end)
        assert any(
            colour == line.colour and ends == pytest.approx(wanted, abs=0.002)
            for colour, ends in known
        )
        # On its cap, which is taller than the symbol.
        x, y = line.start[0], line.start[1] - 1.0
        red, green, blue = image.getpixel((int(x / MM * 300), int(y / MM * 300)))
        assert f"#{red:02x}{green:02x}{blue:02x}" == line.colour


def test_files_have_the_size_that_was_asked_for(drawing: Drawing) -> None:
    svg = ET.fromstring(write_file([drawing], "svg"))
    assert (svg.get("width"), svg.get("height")) == (f"{drawing.width}mm", f"{drawing.height}mm")
    image = Image.open(io.BytesIO(write_file([drawing], "png")))
    assert image.info["dpi"] == pytest.approx((300, 300), abs=0.1)
    assert image.width == pytest.approx(drawing.width / MM * 300, abs=1)
    box = PdfReader(io.BytesIO(write_file([drawing], "pdf"))).pages[0].mediabox
    assert float(box.width) == pytest.approx(drawing.width / MM * 72, abs=0.1)


def test_the_svg_says_what_it_shows_and_has_neither_style_sheet_nor_text(drawing: Drawing) -> None:
    svg = write_file([drawing], "svg").decode()
    root = ET.fromstring(svg)
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == drawing.title
    assert root.findtext(f"{SVG}desc") == drawing.description
    assert not list(root.iter(f"{SVG}style"))
    assert not list(root.iter(f"{SVG}text")), "every editor has the outlines, not every the font"


def test_all_fonts_of_the_pdf_are_embedded_subsets_of_truetype(drawing: Drawing) -> None:
    reader = PdfReader(io.BytesIO(write_file([drawing], "pdf")))
    fonts = reader.pages[0]["/Resources"]["/Font"].values()
    assert fonts
    for font in (reference.get_object() for reference in fonts):
        inner = font["/DescendantFonts"][0].get_object() if "/DescendantFonts" in font else font
        descriptor = inner["/FontDescriptor"].get_object()
        assert "/FontFile2" in descriptor, font["/BaseFont"]
        assert inner["/Subtype"] in ("/CIDFontType2", "/TrueType")
        assert "Arimo" in font["/BaseFont"]
        assert len(descriptor["/FontFile2"].get_object().get_data()) < 60_000
    text = reader.pages[0].extract_text()
    for word in ("Apptainer", "udocker", "ResNet-50", "Equivalent", "1/1.02 to 1.02"):
        assert word in text


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_the_same_figure_is_the_same_file(drawing: Drawing, ending: str) -> None:
    assert write_file([drawing], ending) == write_file([drawing], ending)


@pytest.mark.filterwarnings("ignore:Glyph")
def test_markup_and_formulas_in_names_are_letters() -> None:
    type_ = get_typeface()
    use_typeface(type_)
    odd = "$x^2$ <b>&amp;</b> \\frac{1}{2} 漢 \u202eabc\u0000\n"
    forest = describe(make_pairs(1, environments=[odd], heading="{{}} </svg>"))
    (page,) = lay_out_forest(forest, width=180, theme=LIGHT, type_=type_)
    for ending in ("svg", "png", "pdf"):
        assert write_file([page], ending)
    text = PdfReader(io.BytesIO(write_file([page], "pdf"))).pages[0].extract_text()
    assert "$x^2$" in text
    ET.fromstring(write_file([page], "svg"))
