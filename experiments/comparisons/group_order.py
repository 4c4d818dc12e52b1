"""What was read for each configuration, in the order in which the comparison has these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from experiments.comparisons.comparison import Comparison

Key = TypeVar("Key", bound=tuple[str, ...])
Value = TypeVar("Value")


def sort_by_groups(comparison: Comparison, values: Mapping[Key, Value]) -> list[tuple[Key, Value]]:
    """Return the items of a mapping whose keys begin with a workload and a scale.

    Those of a configuration that is not compared come last; within one they keep their order.
    """
    places: dict[tuple[str | None, str | None], int] = {}
    for group in comparison.groups:
        configuration = group.configuration
        place = configuration.get("workload"), configuration.get("scale")
        places.setdefault(place, len(places))
    return sorted(
        values.items(), key=lambda item: places.get((item[0][0], item[0][1]), len(places))
    )
