"""Predictions for an image that is larger than a network's tiles: windows that overlap by half."""

from __future__ import annotations

from typing import Any, Callable, List

from ..frameworks import load


def predict_in_windows(predict: Callable[[Any], Any], image: Any, window: int, batch: int) -> Any:
    """Return the mean prediction of all windows for each pixel: [height, width, classes], float32.

    `predict` takes tiles [batch, window, window, channels], always `batch` of them, and returns
    [batch, window, window, classes]. The image must be at least as large as a window.
    """
    numpy = load("numpy", "NumPy")
    height, width = image.shape[:2]
    lefts = list_window_starts(width, window)
    corners = [(top, left) for top in list_window_starts(height, window) for left in lefts]
    counts = numpy.zeros((height, width, 1), "float32")  # windows that hold each pixel
    total: Any = None
    for first in range(0, len(corners), batch):
        batch_corners = corners[first : first + batch]
        filled = batch_corners + batch_corners[-1:] * (batch - len(batch_corners))
        tiles = numpy.stack([image[top:, left:][:window, :window] for top, left in filled])
        for (top, left), prediction in zip(batch_corners, predict(tiles)):
            if total is None:
                total = numpy.zeros((height, width, prediction.shape[-1]), "float32")
            total[top : top + window, left : left + window] += prediction
            counts[top : top + window, left : left + window] += 1
    return total / counts


def list_window_starts(length: int, window: int) -> List[int]:
    """Return where windows begin along one side: half a window apart, the last at the far end."""
    if length < window:
        raise ValueError(f"{length} pixels are less than a window of {window}")
    return [*range(0, length - window, max(1, window // 2)), length - window]
