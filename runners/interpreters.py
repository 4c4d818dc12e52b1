"""The interpreter of an environment, as its entry names it."""

import re

NO_PYTHON = "none"
"""Stands for the interpreter of an environment that has no Python 3.8 or later."""
OLD = re.compile(r"(.*/)?python2(\.\d+)?")


def has_python(interpreter: str) -> bool:
    """Return whether an interpreter may be one by which Tare's own programs run: 3.8 or later."""
    return interpreter != NO_PYTHON and not OLD.fullmatch(interpreter)
