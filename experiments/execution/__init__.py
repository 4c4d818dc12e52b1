"""What is done on clusters: the only package that imports both the models and `runners.runner`."""

import experiments.execution.build_operations  # its kinds of operations
import experiments.execution.code_operations  # its kinds of operations
import experiments.execution.data_operations  # its kinds of operations
import experiments.execution.inspect_operations  # its kinds of operations
import experiments.execution.retention_operations  # its kinds of operations
import experiments.execution.staging_operations  # noqa: F401  (its kinds of operations)
from experiments.execution.by_hand_jobs import NothingToCarry, write_jobs
from experiments.execution.by_hand_results import NotBrought, bring_results
from experiments.execution.cluster_readings import read_cluster
from experiments.execution.connection_test_visits import test_connection, try_log_in
from experiments.execution.connections import connect, find_visitor
from experiments.execution.file_copies import copy_file
from experiments.execution.image_transfers import receive, send
from experiments.execution.lease import LeaseLost
from experiments.execution.preflight_visits import check, fetch_host_key
from experiments.execution.recurrences import launch_recurrence
from experiments.execution.specs import explain_partition_problem
from experiments.execution.tick import tick
from experiments.execution.uploaded_results import bring_uploaded_results

__all__ = [
    "LeaseLost",
    "NotBrought",
    "NothingToCarry",
    "bring_results",
    "bring_uploaded_results",
    "check",
    "connect",
    "copy_file",
    "explain_partition_problem",
    "fetch_host_key",
    "find_visitor",
    "launch_recurrence",
    "read_cluster",
    "receive",
    "send",
    "test_connection",
    "tick",
    "try_log_in",
    "write_jobs",
]
