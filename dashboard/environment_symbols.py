"""The index by which an environment keeps its symbol and colour on every page and plot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from experiments.models import Environment, Experiment
from experiments.natural_order import make_natural_key


def assign_symbols(experiment: Experiment) -> dict[str, int]:
    """Return environment's name -> index: 0 for the baseline, the others in the order of names."""
    rows = experiment.environments.only("name").order_by()
    return {row.name: index for index, row in enumerate(sort_environments(experiment, rows))}


def find_symbol(experiment: Experiment, environment: int, keys: Mapping[str, int]) -> int:
    """Return the index of one of an experiment's environments, whose `keys` are given by name."""
    names = sorted(
        keys, key=lambda name: (keys[name] != experiment.baseline_id, make_natural_key(name))
    )
    return [keys[name] for name in names].index(environment)


def sort_environments(experiment: Experiment, rows: Iterable[Environment]) -> list[Environment]:
    """Return the environments of an experiment in the order of their symbols."""
    return sorted(
        rows, key=lambda row: (row.pk != experiment.baseline_id, make_natural_key(row.name))
    )
