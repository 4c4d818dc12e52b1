"""Imports of logs from runs outside Tare, which are not trusted."""

from experiments.imports.archive import list_files
from experiments.imports.problems import ImportProblem
from experiments.imports.reading import LIMITS, Limits
from experiments.imports.tf_cnn import LoggedRun, Logs, read_logs

__all__ = ["LIMITS", "ImportProblem", "Limits", "LoggedRun", "Logs", "list_files", "read_logs"]
