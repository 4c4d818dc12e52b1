"""Comparisons of runs and of published tables: computed each time one is shown, never stored."""

from experiments.comparisons.comparison import (
    Comparison,
    Group,
    comparison_rows,
    everywhere_rows,
    is_decided,
)
from experiments.comparisons.exclusions import EXCLUDED_AFTER, Exclusion
from experiments.comparisons.experiment_comparison import (
    COLLECTED_AFTER,
    TRIED_AGAIN,
    ExperimentComparison,
    compare_experiment,
    primary_metric,
    run_rows,
)

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
