"""Comparisons of runs and of published tables: computed from runs, and kept until these change."""

from experiments.comparisons.compared_pairs import COLLECTED_AFTER, TRIED_AGAIN
from experiments.comparisons.compared_runs import choose_primary_metric
from experiments.comparisons.comparison import (
    Comparison,
    Group,
    is_decided,
    list_comparison_rows,
    list_everywhere_rows,
    list_pooled_rows,
    make_comparison_row,
)
from experiments.comparisons.exclusions import (
    EXCLUDED_AFTER,
    EXCLUDED_AFTER_INTERIM,
    EXCLUDING,
    Exclusion,
)
from experiments.comparisons.experiment_comparison import ExperimentComparison, compare_experiment
from experiments.comparisons.kept import (
    keep_comparison,
    read_comparison,
    read_kept_verdicts,
)
from experiments.comparisons.latest import (
    Latest,
    find_latest,
    read_all_kept,
    read_all_latest,
    read_latest,
)
from experiments.comparisons.rejections import Rejections
from experiments.comparisons.run_rows import list_run_rows
from experiments.comparisons.run_tables import (
    describe_source,
    make_measurements_table,
    make_runs_table,
    make_series_table,
)

__all__ = [
    "COLLECTED_AFTER",
    "EXCLUDED_AFTER",
    "EXCLUDED_AFTER_INTERIM",
    "EXCLUDING",
    "TRIED_AGAIN",
    "Comparison",
    "Exclusion",
    "ExperimentComparison",
    "Group",
    "Latest",
    "Rejections",
    "choose_primary_metric",
    "compare_experiment",
    "describe_source",
    "find_latest",
    "is_decided",
    "keep_comparison",
    "list_comparison_rows",
    "list_everywhere_rows",
    "list_pooled_rows",
    "list_run_rows",
    "make_comparison_row",
    "make_measurements_table",
    "make_runs_table",
    "make_series_table",
    "read_all_kept",
    "read_all_latest",
    "read_comparison",
    "read_kept_verdicts",
    "read_latest",
]
