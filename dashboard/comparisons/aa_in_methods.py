"""The sentence on A/A tests in the paragraphs on the methods of a comparison."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.comparisons import ExperimentComparison
from experiments.statistics import numbers


def describe_aa_test(comparison: ExperimentComparison) -> Iterator[str]:
    """Yield which environments are the baseline once more, and what such a test is for."""
    names = comparison.same_as_baseline
    if not names:
        return
    verb = "is" if len(names) == 1 else "are"
    yield (
        f"A/A test: {numbers.listed(names)} {verb} the same environment as {comparison.baseline}, "
        "with the same settings, measured a second time in the same blocks and in random order, "
        "and compared like any other. A difference between them is one of the machine or of the "
        "measurement."
    )
