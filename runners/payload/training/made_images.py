"""A small data set that is drawn: patterns of ten classes under noise, read like one of files."""

from __future__ import annotations

from typing import Any, Tuple

from ..frameworks import load
from .small_images import CLASSES, Split

TRAINED, HELD_OUT = 2000, 500  # images
FIELDS = 4  # coloured fields on each side of a class's pattern
SIGNAL = 0.12  # weight of the pattern in an image; the rest is noise


def make_patterns(seed: int, side: int, channels: int) -> Tuple[Split, Split]:
    """Return the images to train on and the held-out images, of `side` x `side` pixels.

    NumPy's RandomState is frozen: a seed draws the same bytes in every environment.
    """
    draw = load("numpy", "NumPy").random.RandomState([seed, 17])
    patterns = draw.randint(0, 256, (CLASSES, FIELDS, FIELDS, channels))
    repeats = -(-side // FIELDS)
    patterns = patterns.repeat(repeats, 1).repeat(repeats, 2)[:, :side, :side]
    return _draw_split(draw, patterns, TRAINED), _draw_split(draw, patterns, HELD_OUT)


def _draw_split(draw: Any, patterns: Any, count: int) -> Split:
    labels = draw.randint(0, CLASSES, count).astype("int32")
    noise = draw.randint(0, 256, (count, *patterns.shape[1:]))
    images = SIGNAL * patterns[labels] + (1 - SIGNAL) * noise
    return Split(images.astype("uint8"), labels)
