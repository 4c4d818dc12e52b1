"""Checks that every data set needs before and while it is read, whatever its format."""

from __future__ import annotations

import os
import re

from ..frameworks import DataUnusable, StartError

GRAPH = re.compile(r"\{\{[^}]*\}\}|\[Op:\w+\]( name:)?")


def require_directory(directory: str, contents: str) -> None:
    """Raise DataUnusable or StartError unless the directory exists and may be read.

    `contents` says for the message what the directory should hold, such as "the data set mnist".
    """
    if not directory:
        raise StartError(f"no data_directory was given: {contents} lies in one")
    if not os.path.isabs(directory):
        raise StartError(
            f"data_directory {directory!r} is not a whole path: it has to begin with '/'"
        )
    if not os.path.isdir(directory):
        problem = "is a file" if os.path.exists(directory) else "is not there"
        raise DataUnusable(
            f"{directory}, the folder of {contents}, {problem} as seen from inside this "
            "environment. Does the path exist on the node? A container sees only what it is "
            "given: add the folder to the environment's binds."
        )
    if not os.access(directory, os.R_OK | os.X_OK):
        raise DataUnusable(
            f"{directory}, the folder of {contents}, may not be read by this account"
        )


def require_images(batch: int, images: int, source: str) -> None:
    """Raise DataUnusable if one batch of the job needs more images than `source` has."""
    if batch > images:
        raise DataUnusable(
            f"the job's batch of {batch} images is larger than {source}, which has {images}: make "
            "batch_size smaller"
        )


def explain_tensorflow_error(error: Exception) -> str:
    """Return the first line of TensorFlow's message, without where in its graph it arose."""
    return GRAPH.sub("", str(error)).strip().split("\n", 1)[0]
