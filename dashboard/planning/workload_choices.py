"""The workloads that the form of an experiment offers: the chosen ones, and some that match."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast

from experiments.models import Workload
from experiments.natural_columns import pad_workload
from runners.workloads import WORKLOADS

MOST_OFFERED = 50
"""Workloads that are offered besides the chosen ones."""
FEWEST_FILTERED = 12
"""Workloads up to which nobody needs a filter."""
LONGEST_FILTER, MOST_TERMS = 200, 8


@dataclass(frozen=True)
class WorkloadChoices:
    """The rows that are shown, the chosen ones first, and how many there are without a filter."""

    chosen: list[Workload]
    others: list[Workload]
    matching: int
    """Those that are not chosen and match, shown or not."""
    total: int
    text: str

    @property
    def rows(self) -> list[Workload]:
        return [*self.chosen, *self.others]

    @property
    def has_filter(self) -> bool:
        return bool(self.text) or self.total > FEWEST_FILTERED

    @property
    def left_out(self) -> int:
        """Return how many match and are not shown."""
        return self.matching - len(self.others)


def choose_offered(
    workloads: QuerySet[Workload], chosen: Collection[int], text: str
) -> WorkloadChoices:
    """Return the workloads to offer; `text` are words of names, kinds and parameters."""
    text = text.replace("\0", "").strip()[:LONGEST_FILTER]
    workloads = workloads.order_by(pad_workload(), "pk")
    kept = list(workloads.filter(pk__in=chosen)) if chosen else []
    rest = workloads.exclude(pk__in=[row.pk for row in kept]) if kept else workloads
    if text:
        rest = rest.annotate(written=Cast("parameters", TextField()))
        for term in text.split()[:MOST_TERMS]:
            kinds = [
                name
                for name, kind in WORKLOADS.items()
                if term.lower() in f"{name} {kind.label}".lower()
            ]
            name, _, value = term.partition("=")
            matches = Q(name__icontains=term) | Q(kind__in=kinds) | Q(written__icontains=term)
            if value:  # as the parameters beside the names are written
                for written in (f"{value},", f"{value}}}", f'"{value}"'):
                    matches |= Q(written__icontains=f'"{name}": {written}')
            rest = rest.filter(matches)
    others = list(rest[: MOST_OFFERED + 1])
    matching = len(others) if len(others) <= MOST_OFFERED else rest.count()
    total = workloads.count() if text else len(kept) + matching
    return WorkloadChoices(kept, others[:MOST_OFFERED], matching, total, text)
