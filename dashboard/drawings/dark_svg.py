"""One SVG for both themes: it is light, and dark where the reader prefers that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from dashboard.drawings.themes import DARK, LIGHT

STARTS_AT = b" <defs>"
"""The first line behind title and description."""


def add_dark_theme(svg: bytes) -> bytes:
    """Return an SVG of the light theme with rules that give it the dark one's colours.

    Browsers apply them where the page around it may be dark and the reader prefers that; on paper
    and in programs for drawing it stays light. They take about a hundred bytes a colour.
    """
    rules = b"".join(
        f'[style*="{name}: {light}"] {{ {name}: {dark} !important }}\n'.encode()
        for light, dark in _pair_colours()
        for name in ("fill", "stroke")
        if f"{name}: {light}".encode() in svg
    )
    style = b" <style>@media screen and (prefers-color-scheme: dark) {\n%b}</style>\n" % rules
    return svg.replace(STARTS_AT, style + STARTS_AT, 1)


def _pair_colours() -> Iterator[tuple[str, str]]:
    """Yield each colour of the light theme with that of the same place in the dark one."""
    for field in fields(LIGHT):
        light, dark = getattr(LIGHT, field.name), getattr(DARK, field.name)
        if isinstance(light, str):
            yield light, dark
        else:
            yield from zip(light, dark, strict=True)
