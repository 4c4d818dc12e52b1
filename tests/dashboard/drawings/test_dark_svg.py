"""One SVG for both themes: each colour of the light one turns into that of the dark one."""

from __future__ import annotations

from dataclasses import fields
from xml.etree import ElementTree

from dashboard.drawings.dark_svg import add_dark_theme
from dashboard.drawings.themes import DARK, LIGHT

SVG = b"""<svg xmlns="http://www.w3.org/2000/svg">
 <title>One &amp; two</title>
 <defs>
 </defs>
 <path d="M 0 0" style="fill: #1b1f24; stroke: #d9730d"/>
</svg>
"""


def test_only_colours_that_occur_get_a_rule_and_the_figure_stays_well_formed() -> None:
    root = ElementTree.fromstring(add_dark_theme(SVG))
    (style,) = root.findall("{*}style")
    assert style.text
    assert style.text.startswith("@media screen and (prefers-color-scheme: dark) {")
    assert style.text.count("!important") == 2
    assert f'[style*="fill: {LIGHT.ink}"] {{ fill: {DARK.ink} !important }}' in style.text
    dark = DARK.environments[1]
    assert f'[style*="stroke: #d9730d"] {{ stroke: {dark} !important }}' in style.text
    assert [path.get("style") for path in root.findall("{*}path")] == [
        "fill: #1b1f24; stroke: #d9730d"
    ]


def test_no_colour_of_the_light_theme_stands_for_two_of_the_dark_one() -> None:
    pairs: dict[str, set[str]] = {}
    for field in fields(LIGHT):
        light, dark = getattr(LIGHT, field.name), getattr(DARK, field.name)
        colours = [(light, dark)] if isinstance(light, str) else zip(light, dark, strict=True)
        for one, other in colours:
            pairs.setdefault(one, set()).add(other)
    assert all(len(others) == 1 for others in pairs.values())


def test_what_is_no_figure_of_ours_stays_as_it_is() -> None:
    assert add_dark_theme(b"<svg/>") == b"<svg/>"
