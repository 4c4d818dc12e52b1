"""Loading the library that a workload measures, with a reason in words when it cannot."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class StartError(Exception):
    """The workload cannot start in this environment; the message says why and what would help."""


class Failure(Exception):
    """A run is worth nothing for a reason that has a name: "name: what happened; what to do"."""


class DataUnusable(Failure):
    """A data set is missing or broken; the message says which file, and what would help."""

    def __init__(self, message: str) -> None:
        super().__init__("data set unusable: " + message)


def set_threads(count: int) -> None:
    """Limit the numerical libraries; they read these variables once, when they are loaded."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(count)))


def load(module: str, label: str) -> ModuleType:
    """Import a library that the environment has to bring."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise StartError(f"{label} is installed but lacks a part of it: {error}") from error
        raise StartError(
            f"{label} is not installed in this environment: {sys.executable} "
            f"(Python {sys.version.split()[0]}) has no module {module!r}"
        ) from error
    except ImportError as error:
        # Say the first line only: loaders append pages of advice.
        reason = str(error).strip().split("\n", 1)[0]
        raise StartError(f"{label} is installed but does not load: {reason}") from error
