"""Where rows meet runners: the only package that imports both."""

import experiments.execution.building  # its kinds of chores
import experiments.execution.environments  # its kinds of chores
import experiments.execution.staging  # noqa: F401  (its kinds of chores)
from experiments.execution.connections import test_connection, try_log_in
from experiments.execution.file_copies import copy_file
from experiments.execution.lease import LeaseLost
from experiments.execution.links import connect, partition_problem
from experiments.execution.preflight import check, fetch_host_key
from experiments.execution.tick import tick
from experiments.execution.transfers import receive, send

__all__ = [
    "LeaseLost",
    "check",
    "connect",
    "copy_file",
    "fetch_host_key",
    "partition_problem",
    "receive",
    "send",
    "test_connection",
    "tick",
    "try_log_in",
]
