"""Where rows meet runners: the only package that imports both."""

from experiments.execution.lease import LeaseLost
from experiments.execution.links import connect
from experiments.execution.tick import tick

__all__ = ["LeaseLost", "connect", "tick"]
