"""How to load the library that a workload measures, and the errors that end a run."""

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
    """An error: the workload cannot start in this environment; the message says what would help."""


class Failure(Exception):
    """An error that makes a run worthless; its message is "name: what happened; what to do"."""


class Unfinished(Exception):
    """Ends a process before the time limit of its job: a further job goes on from a checkpoint."""


class DataUnusable(Failure):
    """An error for a data set that is missing or broken; the message says which file."""

    def __init__(self, message: str) -> None:
        super().__init__("data set unusable: " + message)


def set_threads(count: int) -> None:
    """Limit the threads of numerical libraries, which read these variables when they load."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(count)))


def load(module: str, label: str) -> ModuleType:
    """Import a library of the environment. Raises StartError, with a reason, if it cannot."""
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
        # Only the first line: loaders append pages of advice.
        reason = str(error).strip().split("\n", 1)[0]
        raise StartError(f"{label} is installed but does not load: {reason}") from error
