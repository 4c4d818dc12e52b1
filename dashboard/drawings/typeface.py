"""The typeface of figures: Arimo in three faces, its files and the widths of its letters.

Arimo is free (SIL Open Font Licence) and as wide as Arial. It comes as a variable font, which
neither matplotlib nor a journal's preflight takes: each face is made a font of its own, once.
"""

from __future__ import annotations

import os
import tempfile
import unicodedata
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fontpkg

from dashboard.drawings.elements import TYPE, Face

FAMILY = "Arimo"
FACES: dict[Face, tuple[str, int]] = {
    "regular": ("normal", 400),
    "bold": ("normal", 700),
    "italic": ("italic", 400),
}
POINT = 25.4 / 72
"""Millimetres."""
UNKNOWN = 1.5
"""Of the type's size: at most how wide a letter is that the typeface lacks."""
MOST_MARKS = 2
"""Accents and the like on one letter: more of them would reach into the rows around."""
ELLIPSIS = "…"
UNPRINTABLE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


class Typeface:
    """The three faces, kept as files in `folder`, which is made where it is missing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def files(self) -> dict[Face, Path]:
        """Return the file of each face. The first call takes seconds, all others nothing."""
        return {face: self._find_or_make(face) for face in FACES}

    def measure(self, text: str, face: Face = "regular", size: float = TYPE) -> float:
        """Return how wide a text is, in millimetres; `size` is in points."""
        widths, units = self._widths[face]
        ems = sum(widths.get(ord(letter), UNKNOWN * units) for letter in text) / units
        return float(ems * size * POINT)

    def cut(self, text: str, width: float, face: Face = "regular", size: float = TYPE) -> str:
        """Return the text if it fits; else both its ends, which tell names apart, with "…"."""
        if self.measure(text, face, size) <= width:
            return text
        for kept in range(len(text) - 1, 1, -1):
            head = (kept + 1) // 2
            short = text[:head].rstrip() + ELLIPSIS + text[len(text) - (kept - head) :].lstrip()
            if self.measure(short, face, size) <= width:
                return short
        return ELLIPSIS

    def wrap(
        self, text: str, width: float, face: Face = "regular", *, lines: int = 99
    ) -> list[str]:
        """Return the text in so many lines at most; what is too long is cut."""
        rows: list[str] = []
        words = text.split()
        while words:
            if len(rows) == lines - 1:
                return [*rows, self.cut(" ".join(words), width, face)]
            row = words.pop(0)
            while words and self.measure(f"{row} {words[0]}", face) <= width:
                row += f" {words.pop(0)}"
            rows.append(self.cut(row, width, face))
        return rows

    @cached_property
    def _widths(self) -> dict[Face, tuple[dict[int, int], int]]:
        from fontTools.ttLib import TTFont

        known: dict[Face, tuple[dict[int, int], int]] = {}
        for face, path in self.files.items():
            with TTFont(path, lazy=True) as font:
                metrics = font["hmtx"].metrics
                widths = {code: metrics[name][0] for code, name in font.getBestCmap().items()}
                known[face] = widths, font["head"].unitsPerEm
        return known

    def _find_or_make(self, face: Face) -> Path:
        path = self._folder / f"{FAMILY}-{version('fontpkg-arimo')}-{face}.ttf"
        if not path.exists():
            _save_whole(_instantiate(face), path)
        return path


def clean(text: str) -> str:
    """Return a text on one line without letters that print nothing or turn others around."""
    printed = ""
    marks = 0
    for letter in unicodedata.normalize("NFC", text):
        kind = unicodedata.category(letter)
        marks = marks + 1 if kind in ("Mn", "Me") else 0
        if marks <= MOST_MARKS:
            printed += letter if kind not in UNPRINTABLE else " "
    return " ".join(printed.split())


def _instantiate(face: Face) -> Any:
    """Return one face of the variable font as a font of its own."""
    from fontTools.ttLib import TTFont
    from fontTools.varLib.instancer import instantiateVariableFont

    style, weight = FACES[face]
    font = TTFont(fontpkg.path(FAMILY, style=style))
    return instantiateVariableFont(font, {"wght": weight}, updateFontNames=True)


def _save_whole(font: Any, path: Path) -> None:
    """Save the font so that no other process ever reads half of it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    with os.fdopen(handle, "wb") as file:
        font.save(file)
    Path(name).replace(path)
