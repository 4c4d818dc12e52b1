"""Comparisons of runs and of published tables: computed each time one is shown, never stored."""

from experiments.comparisons.compared_pairs import COLLECTED_AFTER, TRIED_AGAIN
from experiments.comparisons.compared_runs import primary_metric
from experiments.comparisons.comparison import (
    Comparison,
    Group,
    comparison_rows,
    everywhere_rows,
    is_decided,
)
from experiments.comparisons.exclusions import EXCLUDED_AFTER, Exclusion
from experiments.comparisons.experiment_comparison import ExperimentComparison, compare_experiment
from experiments.comparisons.run_rows import run_rows

__all__ = [
    "COLLECTED_AFTER",
    "EXCLUDED_AFTER",
    "TRIED_AGAIN",
    "Comparison",
    "Exclusion",
    "ExperimentComparison",
    "Group",
    "compare_experiment",
    "comparison_rows",
    "everywhere_rows",
    "is_decided",
    "primary_metric",
    "run_rows",
]
