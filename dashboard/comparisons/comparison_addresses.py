"""Addresses of the pages of a comparison, whatever it is a comparison of."""

from __future__ import annotations

from django.urls import reverse

from experiments.comparisons import Comparison, ExperimentComparison
from experiments.comparisons.published_tables import TableComparison


def make_page_address(
    comparison: Comparison, of_experiment: str, of_table: str, *names: str
) -> str:
    """Return the address of a view of the comparison, by the view's name for each kind."""
    match comparison:
        case TableComparison():
            return reverse(of_table, args=[comparison.row.pk, *names])
        case ExperimentComparison():
            return reverse(of_experiment, args=[comparison.experiment.pk, *names])
    raise TypeError(f"{type(comparison).__name__} has no page.")
