"""Predictions for an image that is larger than a network's tiles: windows that overlap by half."""

from __future__ import annotations

from typing import Any, Callable, List

from ..frameworks import load


def stitched(predict: Callable[[Any], Any], image: Any, window: int, batch: int) -> Any:
    """The mean of what all windows say of each pixel: [height, width, classes], float32.

    `predict` takes tiles [batch, window, window, channels], always so many of them, and gives
    [batch, window, window, classes]. The image must be as large as a window.
    """
    numpy = load("numpy", "NumPy")
    height, width = image.shape[:2]
    corners = [(top, left) for top in starts(height, window) for left in starts(width, window)]
    seen = numpy.zeros((height, width, 1), "float32")
    total: Any = None
    for first in range(0, len(corners), batch):
        some = corners[first : first + batch]
        filled = some + some[-1:] * (batch - len(some))
        tiles = numpy.stack([image[top:, left:][:window, :window] for top, left in filled])
        for (top, left), said in zip(some, predict(tiles)):
            if total is None:
                total = numpy.zeros((height, width, said.shape[-1]), "float32")
            total[top : top + window, left : left + window] += said
            seen[top : top + window, left : left + window] += 1
    return total / seen


def starts(length: int, window: int) -> List[int]:
    """Where windows begin along one side: half a window apart, the last one at the far end."""
    if length < window:
        raise ValueError(f"{length} pixels are less than a window of {window}")
    return [*range(0, length - window, max(1, window // 2)), length - window]
