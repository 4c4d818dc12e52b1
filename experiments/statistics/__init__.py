"""The statistics of comparing environments: pure functions of numbers, without Django."""

from experiments.statistics.compare_samples import compare, holm
from experiments.statistics.curves import equivalence_curve
from experiments.statistics.points import PointsPair, compare_points
from experiments.statistics.values import Better, Measured, Pair, Sample, Stamp, Verdict

__all__ = [
    "Better",
    "Measured",
    "Pair",
    "PointsPair",
    "Sample",
    "Stamp",
    "Verdict",
    "compare",
    "compare_points",
    "equivalence_curve",
    "holm",
]
