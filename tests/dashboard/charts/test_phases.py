"""Phases keep a colour of their own: apart from the environments', and seen in both themes."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from dashboard.charts.phases import COLOURS, OTHERS, choose_css_class, sort_by_time
from dashboard.comparisons.anatomy import prepare_panels
from experiments.comparisons.anatomy import Anatomy, Body

SHEET = (Path(__file__).parents[3] / "static/css/tare.css").read_text()


def tokens(begin: str) -> dict[str, str]:
    """The colours of one theme, by their names."""
    rule = SHEET[SHEET.index(begin) :].partition("}")[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", rule))


THEMES = {"light": tokens(":root {"), "dark": tokens('[data-bs-theme="dark"] {')}
WITHOUT_SCRIPT = tokens("  :root:not([data-bs-theme]) {")
NAMES = [*COLOURS.values(), *(f"other-{number}" for number in range(OTHERS))]


def test_the_dark_theme_is_the_same_without_javascript() -> None:
    tokens_of_tare = {name: colour for name, colour in WITHOUT_SCRIPT.items() if name[:3] != "bs-"}
    assert tokens_of_tare == THEMES["dark"]


def channels(colour: str) -> list[float]:
    """Linear red, green and blue."""
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, 1.4.11."""
    lights = [
        sum(map(float.__mul__, (0.2126, 0.7152, 0.0722), channels(colour)))
        for colour in (one, other)
    ]
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def distance(one: str, other: str) -> float:
    """CIE 1976: Euclid's in L*a*b*; 2.3 is just noticeable."""
    places = []
    for colour in (one, other):
        red, green, blue = channels(colour)
        x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
        y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
        z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
        x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
        places.append((116 * y - 16, 500 * (x - y), 200 * (y - z)))
    return float(sum((a - b) ** 2 for a, b in zip(*places, strict=True)) ** 0.5)


@pytest.mark.parametrize("theme", THEMES)
def test_phases_are_seen_and_are_no_environments(theme: str) -> None:
    colours = THEMES["light"] | THEMES[theme]
    phases = {name: colours[f"phase-{name}"] for name in NAMES}
    assert len(set(phases.values())) == len(phases)
    environments = {number: colours[f"env-{number}"] for number in range(8)}
    for name, colour in phases.items():
        assert contrast(colour, colours["tare-surface"]) >= 3, name
        assert f".phase-{name} {{" in SHEET
    for (name, colour), (number, other) in product(phases.items(), environments.items()):
        assert distance(colour, other) > 10, (name, number)


def test_a_phase_has_one_colour_whatever_stands_beside_it() -> None:
    few = Anatomy("a", "1x1", [Body("bare metal", 5, {"import": 1.0, "first step": 2.0}, 3.0)])
    phases = {"container start": 1.0, "my own": 0.5, "import": 1.0, "first step": 2.0}
    many = Anatomy("b", "1x1", [Body("bare metal", 5, phases, 4.5)])
    shown = [
        {part.name: part.css for part in panel.rows[0].bar} for panel in prepare_panels([few, many])
    ]
    assert shown[0]["import"] == shown[1]["import"] == choose_css_class("import") == "phase-import"
    assert shown[0]["first step"] == shown[1]["first step"]
    assert shown[1]["my own"].startswith("phase-other-")


def test_phases_stand_in_the_order_of_time_and_unknown_ones_last() -> None:
    assert sort_by_time(["z", "end", "import", "a", "container start"]) == [
        "container start",
        "import",
        "end",
        "a",
        "z",
    ]
