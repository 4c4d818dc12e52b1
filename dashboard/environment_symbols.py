"""The index by which an environment keeps its symbol and colour on every page and plot."""

from __future__ import annotations

from experiments.models import Experiment


def assign_symbols(experiment: Experiment) -> dict[str, int]:
    """Return environment's name -> index: 0 for the baseline, the others in the order of names."""
    names = sorted(
        experiment.environments.values_list("name", "pk"),
        key=lambda row: (row[1] != experiment.baseline_id, row[0]),
    )
    return {name: index for index, (name, _) in enumerate(names)}
