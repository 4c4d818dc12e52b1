"""Where rows meet runners: the only package that imports both."""

from experiments.execution.tick import tick

__all__ = ["tick"]
