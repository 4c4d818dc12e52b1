"""Colours of environments: told apart from their ground, on paper and on every page."""

from __future__ import annotations

import re

import pytest
from django.conf import settings

from dashboard.charts import COLOURS
from dashboard.drawings.themes import THEMES, compute_contrast, make_grey

SHEET = (settings.BASE_DIR / "static" / "css" / "tare.css").read_text()
LEAST = 3.0


@pytest.mark.parametrize("name", THEMES)
def test_environments_are_told_from_the_paper_and_text_is_read(name: str) -> None:
    theme = THEMES[name]
    for colour in theme.environments:
        assert compute_contrast(colour, theme.ground) >= LEAST, colour
    for colour in (theme.ink, theme.muted):
        assert compute_contrast(colour, theme.ground) >= 4.5
    assert compute_contrast(theme.edge, theme.ground) >= LEAST


def read_block(selector: str) -> dict[str, str]:
    block = SHEET[SHEET.index(selector) :].partition("}")[0]
    return dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", block))


@pytest.mark.parametrize(
    ("selector", "theme"),
    [
        (":root {", "light"),
        ('[data-bs-theme="dark"] {', "dark"),
        (":root:not([data-bs-theme]) {", "dark"),
    ],
)
def test_pages_have_the_same_colours_and_they_are_seen_on_each_ground(
    selector: str, theme: str
) -> None:
    colours = read_block(selector)
    environments = tuple(colours[f"env-{index}"] for index in range(8))
    assert environments == THEMES[theme].environments
    for ground in ("tare-surface", "tare-canvas"):
        for colour in environments:
            assert compute_contrast(colour, colours[ground]) >= LEAST, (colour, ground)
    if theme == "light":
        assert environments == COLOURS


def test_contrast_is_that_of_the_guidelines() -> None:
    assert compute_contrast("#000000", "#ffffff") == pytest.approx(21)
    assert compute_contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("colour", [*COLOURS, "#ff0000", "#00ff00", "#000000", "#ffffff"])
def test_a_grey_is_as_light_as_its_colour(colour: str) -> None:
    grey = make_grey(colour)
    assert len(grey) == 7
    assert compute_contrast(grey, colour) < 1.03
