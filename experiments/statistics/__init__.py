"""The statistics of comparing environments: pure functions of numbers, without Django."""

from experiments.statistics.compare_samples import compare
from experiments.statistics.curves import compute_equivalence_curve
from experiments.statistics.multiple_comparisons import correct_by_holm
from experiments.statistics.points import PointsPair, compare_points
from experiments.statistics.values import Better, Estimand, Measured, Pair, Sample, Stamp, Verdict

__all__ = [
    "Better",
    "Estimand",
    "Measured",
    "Pair",
    "PointsPair",
    "Sample",
    "Stamp",
    "Verdict",
    "compare",
    "compare_points",
    "compute_equivalence_curve",
    "correct_by_holm",
]
