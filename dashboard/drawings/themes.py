"""The colours of figures: light, dark, and grey for papers without colour."""

from __future__ import annotations

from dataclasses import dataclass, replace

PHASE_SHADES = (0, 3, 1, 4, 2)
"""The order in which phases take the shades: neighbours are two steps apart at least."""
MOST_PHASES = 2 * len(PHASE_SHADES)
"""Each shade is used plain, and then hatched."""


@dataclass(frozen=True)
class Theme:
    """Colours of one kind of paper as `#rrggbb`; environments in the order of their index."""

    ground: str
    ink: str
    muted: str
    grid: str
    edge: str
    """The ends of the margin."""
    band: str
    environments: tuple[str, ...]
    joining: str
    """Lines between points that belong together."""
    phases: tuple[str, ...]
    """Shades for the phases of a run; the last one is for its steady state."""

    def colour(self, index: int) -> str:
        """Return the colour of the environment with this index."""
        return self.environments[index % len(self.environments)]

    def fill_phase(self, index: int) -> tuple[str, str]:
        """Return the shade of a phase, and the colour of its hatching: "" where it is plain.

        All of MOST_PHASES look different, and each unlike the next one, in grey too.
        """
        turn, place = divmod(index % MOST_PHASES, len(PHASE_SHADES))
        fill = self.phases[PHASE_SHADES[place]]
        if not turn:
            return fill, ""
        return fill, max((self.ink, self.ground), key=lambda each: compute_contrast(each, fill))


LIGHT = Theme(
    ground="#ffffff",
    ink="#1b1f24",
    muted="#5a626b",
    grid="#dfe2e5",
    edge="#7d858d",
    band="#e8ecef",
    environments=(
        "#41464c",
        "#d9730d",
        "#008cdb",
        "#28743d",
        "#9e5500",
        "#5a6a9a",
        "#c94fae",
        "#8f8f45",
    ),
    joining="#aab0b6",
    phases=("#2f2350", "#5b4a86", "#8c7cb3", "#b9aed2", "#dcd6ea", "#f4f3f0"),
)
DARK = Theme(
    ground="#14171a",
    ink="#e4e7e9",
    muted="#a0a8b0",
    grid="#2b3137",
    edge="#8f98a0",
    band="#242a30",
    environments=(
        "#c3c8cd",
        "#f7a258",
        "#4fb3f2",
        "#4fa367",
        "#a9652a",
        "#8790c4",
        "#ee9bdc",
        "#c9c77a",
    ),
    joining="#5b646d",
    phases=("#f1ecfb", "#c5b8e6", "#9685c4", "#6b5b99", "#453a66", "#22262a"),
)


def compute_luminance(colour: str) -> float:
    """Return the relative luminance of `#rrggbb`, from 0 for black to 1 for white (WCAG 2)."""
    shares = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    red, green, blue = (
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def compute_contrast(first: str, second: str) -> float:
    """Return the contrast of two colours, from 1 to 21 (WCAG 2)."""
    low, high = sorted((compute_luminance(first), compute_luminance(second)))
    return (high + 0.05) / (low + 0.05)


def make_grey(colour: str) -> str:
    """Return the grey that is as light as this colour."""
    luminance = compute_luminance(colour)
    share = luminance * 12.92 if luminance <= 0.0031308 else 1.055 * luminance ** (1 / 2.4) - 0.055
    return f"#{round(255 * share):02x}" + 2 * f"{round(255 * share):02x}"


GREY = replace(
    LIGHT,
    **{name: make_grey(getattr(LIGHT, name)) for name in ("ink", "muted", "grid", "edge", "band")},
    environments=tuple(make_grey(colour) for colour in LIGHT.environments),
    joining=make_grey(LIGHT.joining),
    phases=tuple(make_grey(colour) for colour in LIGHT.phases),
)
THEMES = {"light": LIGHT, "dark": DARK, "grey": GREY}
