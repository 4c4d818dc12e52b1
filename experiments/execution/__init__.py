"""Where rows meet runners: the only package that imports both."""

from experiments.execution.lease import LeaseLost
from experiments.execution.links import connect, partition_problem
from experiments.execution.tick import tick

__all__ = ["LeaseLost", "connect", "partition_problem", "tick"]
