"""What studies have measured, in names that are alike in all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from experiments.statistics import Measured, numbers
from experiments.statistics.published.columns import split_column_name

TIMES = {"s", "ms", "us", "µs", "ns", "min", "h"}
SAYS_NOTHING = {"mean", "average", "avg", "value", "time", "result"}
"""Words of column names in published tables that do not say what was measured."""


@dataclass(frozen=True)
class MetricNames:
    """The name of each metric of several studies, and sentences on what was made alike."""

    names: dict[Measured, str]
    remarks: list[str]

    def find(self, metric: Measured) -> str:
        return self.names[metric]

    @property
    def only(self) -> str:
        """Return the name where all studies have one metric; else ""."""
        names = set(self.names.values())
        return names.pop() if len(names) == 1 else ""


def name_metrics(metrics: Iterable[Measured]) -> MetricNames:
    """Return names of these metrics without units.

    A table's column "mean_s" says only that it is a time: it is taken for the one metric of the
    others that is a time too, and a remark says so.
    """
    known = list(dict.fromkeys(metrics))
    names = {metric: _say(metric) for metric in known}
    # A table's column "step_time_s" is the metric of that name, which others have a label for.
    of_columns = {metric.name: names[metric] for metric in known if _has_label(metric)}
    names |= {
        metric: of_columns[name]
        for metric in known
        if (name := split_column_name(metric.name)[0]) in of_columns
    }
    remarks = []
    for metric in known:
        if not _says_nothing(metric):
            continue
        others = {
            names[other]
            for other in known
            if not _says_nothing(other)
            and (other.better, _find_kind(other.unit)) == (metric.better, _find_kind(metric.unit))
        }
        if len(others) == 1:
            taken = others.pop()
            remarks.append(
                f"“{names[metric]}” of a published table is taken for {taken}: the table says "
                f"only that it is in {metric.unit}."
            )
            names[metric] = taken
    return MetricNames(names, [*remarks, *_list_units(names)])


def _list_units(names: dict[Measured, str]) -> Iterable[str]:
    """Yield a sentence on each metric that studies have in several units."""
    units: dict[str, list[str]] = {}
    for metric, name in names.items():
        units.setdefault(name, []).append(metric.unit or "no unit")
    for name, several in units.items():
        different = list(dict.fromkeys(several))
        if len(different) > 1:
            yield (
                f"Units of {name} differ ({numbers.listed(different)}): ratios have none, so they "
                "are compared."
            )


def _say(metric: Measured) -> str:
    label = split_column_name(metric.label or metric.name)[0] or metric.name
    return label.replace("_", " ").lower()


def _has_label(metric: Measured) -> bool:
    """Return whether it is called otherwise than a column of its name would be."""
    return _say(metric) != metric.name.replace("_", " ").lower()


def _says_nothing(metric: Measured) -> bool:
    return set(_say(metric).split()) <= SAYS_NOTHING


def _find_kind(unit: str) -> str:
    """Return what a unit is of: times and rates have many."""
    if unit in TIMES:
        return "time"
    return "rate" if unit.endswith("/s") else unit
