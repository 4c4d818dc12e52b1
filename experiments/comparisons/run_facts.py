"""The facts of runs' snapshots, compared between both sides of each block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from experiments.comparisons.exclusions import filter_counted
from experiments.comparisons.warm_ups import GroupKey
from experiments.fact_comparison import Facts, Waived, compare_blocks, compare_runs
from experiments.models import Experiment, Snapshot
from experiments.statistics.compared_facts import ComparedFacts


@dataclass
class GroupFacts:
    """The snapshots of the runs of one workload at one scale."""

    by_key: Mapping[int, Facts]
    """The facts of each snapshot of the experiment."""
    snapshots: dict[str, dict[int, int]] = field(default_factory=dict)
    """By environment, then by block; of independent runs by the run's key."""
    repeats: dict[int, int] = field(default_factory=dict)
    """The repeat of each block, or of each independent run, where it is known."""

    @cached_property
    def by_environment(self) -> dict[str, list[Facts]]:
        """Return the facts of all runs of each environment; those that runs share stand once."""
        return {
            name: [self.by_key[key] for key in sorted(set(keys.values()))]
            for name, keys in self.snapshots.items()
        }

    def compare(
        self,
        baseline: str,
        environment: str,
        *,
        paired: bool,
        waived: Waived | None,
        repeats: int | None = None,
    ) -> ComparedFacts:
        """Compare an environment with the baseline: in each block, or all of their runs.

        Those of the first `repeats`, or all (None).
        """
        first_keys, second_keys = (self._take(name, repeats) for name in (baseline, environment))
        if not paired:
            first, second = (
                [self.by_key[key] for key in sorted(keys.values())]
                for keys in (first_keys, second_keys)
            )
            return compare_runs(first, second, waived)
        pairs = Counter(
            (first_keys[block], second_keys[block])
            for block in first_keys.keys() & second_keys.keys()
        )
        return compare_blocks(pairs, self.by_key, waived)

    def _take(self, environment: str, repeats: int | None) -> Mapping[int, int]:
        """Return the snapshots of the first `repeats` of an environment, or all, by their place."""
        snapshots = self.snapshots.get(environment, {})
        if repeats is None:
            return snapshots
        return {place: key for place, key in snapshots.items() if self.repeats[place] <= repeats}


def read_facts(experiment: Experiment, *, with_excluded: bool) -> dict[GroupKey, GroupFacts]:
    """Return the facts of the runs that count, by workload and scale; two queries.

    Most runs share a snapshot with others, so each is read once.
    """
    rows = experiment.runs.filter(
        filter_counted(with_excluded=with_excluded, prefix=""), snapshot__isnull=False
    ).order_by("pk")
    by_key: dict[int, Facts] = {}
    groups: dict[GroupKey, GroupFacts] = {}
    place = "job__block" if experiment.is_paired else "pk"
    for workload, scale, environment, block, repeat, snapshot in rows.values_list(
        "workload_id", "scale", "environment__name", place, "repeat", "snapshot_id"
    ):
        group = groups.setdefault((workload, scale), GroupFacts(by_key))
        group.snapshots.setdefault(environment, {})[block] = snapshot
        group.repeats[block] = repeat
        by_key[snapshot] = {}
    stored = Snapshot.objects.filter(pk__in=by_key.keys()) if by_key else Snapshot.objects.none()
    for key, facts in stored.values_list("pk", "facts"):
        by_key[key] = {name: str(value) for name, value in facts.items()}
    return groups


CompareFacts = Callable[[int | None], Mapping[str, ComparedFacts]]
"""Compares the snapshots of the first repeats, or all (None), with the baseline's; by environment.
"""


def make_compare_facts(
    experiment: Experiment,
    facts: GroupFacts | None,
    environments: list[str],
    parity: Mapping[str, Mapping[str, Any]],
) -> CompareFacts:
    """Return what compares the snapshots of one group, the baseline being the first environment.

    All metrics and analyses ask it, so it compares the same repeats once.
    """
    group = facts or GroupFacts({})

    @cache
    def compare_facts(repeats: int | None) -> Mapping[str, ComparedFacts]:
        return {
            name: group.compare(
                environments[0],
                name,
                paired=experiment.is_paired,
                waived=read_waived(parity.get(name)),
                repeats=repeats,
            )
            for name in environments[1:]
        }

    return compare_facts


def read_waived(parity: Mapping[str, Any] | None) -> Waived | None:
    """Return the differences that a person has waived with a reason, as the plan froze them."""
    values = {
        row["what"]: (str(row["here"]), str(row["there"]))
        for row in (parity or {}).get("differences", [])
        if row["reason"]
    }
    return Waived(values) if values else None
