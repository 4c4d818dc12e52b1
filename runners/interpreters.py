"""The interpreter of an environment, as its entry names it."""

NO_PYTHON = "none"
"""Stands for the interpreter of an environment that has no Python 3.8 or later."""
