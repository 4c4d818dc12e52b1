"""Sort what was read for each configuration by the order of configurations in a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from experiments.comparisons.comparison import Comparison
from experiments.natural_order import NaturalKey, make_natural_key

Key = TypeVar("Key", bound=tuple[str, ...])
Value = TypeVar("Value")


def sort_by_groups(comparison: Comparison, values: Mapping[Key, Value]) -> list[tuple[Key, Value]]:
    """Return the items of a mapping whose keys begin with a workload and a scale.

    Those of configurations that are not compared come last, in the natural order of their names.
    Within a configuration items keep their order.
    """
    places: dict[tuple[str | None, str | None], int] = {}
    for group in comparison.groups:
        configuration = group.configuration
        place = configuration.get("workload"), configuration.get("scale")
        places.setdefault(place, len(places))

    def find_place(item: tuple[Key, Value]) -> tuple[int, NaturalKey, NaturalKey]:
        workload, scale = item[0][:2]
        place = places.get((workload, scale), len(places))
        return place, make_natural_key(workload), make_natural_key(scale)

    return sorted(values.items(), key=find_place)
