"""Logs of runs that others have made, read with suspicion. Pure: no models, no database."""

from experiments.imports.archive import Limits, files
from experiments.imports.problems import ImportProblem
from experiments.imports.tf_cnn import LoggedRun, Logs, read_logs

__all__ = ["ImportProblem", "Limits", "LoggedRun", "Logs", "files", "read_logs"]
