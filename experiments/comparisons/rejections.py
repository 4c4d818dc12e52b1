"""Runs that rules of the plan have rejected: how many, by which rule, and whether it may matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import Count

from experiments.models import Experiment, Run, Workload
from experiments.statistics import Pair, Stamp
from experiments.statistics.unequal_rejections import Judged, compute_fisher_p, explain_unequal
from runners.node_rules import name_violated_rules

REJECTED = "rejected"
"""The reason of a failed run that a rule of the plan rejects."""
REJECTED_AGAIN = "rejected, tried again by rule"
"""An event for each rejected run that the plan had run again: why it was rejected."""
PASSED = (Run.State.SUCCEEDED, Run.State.EXCLUDED)
"""States of runs that the rules let pass; what a person did with them later is another matter."""


@dataclass(frozen=True)
class Rejections:
    """The runs of one environment in one configuration, by what the rules of the plan said."""

    workload: str
    scale: str
    environment: str
    rejected: int
    judged: int
    """All runs that the rules have judged; those that failed for another reason are not."""
    rules: dict[str, int]
    """How many runs each rule rejected, by its name; a run may break several."""
    p: float | None
    """Of "rejected as often as the baseline", by Fisher's exact test; None for the baseline."""

    @property
    def columns(self) -> dict[str, Any]:
        """Return the row of the exported files."""
        return {
            "workload": self.workload,
            "scale": self.scale,
            "environment": self.environment,
            "rejected_runs": self.rejected,
            "judged_runs": self.judged,
            "rejected_by": self.by_rule,
            "p_rejected_as_often": self.p,
        }

    @property
    def by_rule(self) -> str:
        """Return how many runs each rule rejected: "slowed GPUs: 3, swap: 1"."""
        return ", ".join(f"{name}: {count:,}" for name, count in self.rules.items())


@dataclass
class _Side:
    """The judged runs of one environment in one configuration, by their repeat."""

    judged: Counter[int] = field(default_factory=Counter)
    rejected: Counter[int] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)

    def count(self, repeats: int | None = None) -> Judged:
        """Return the numbers over the first `repeats`, or over all (None)."""

        def add(counts: Counter[int]) -> int:
            return sum(n for repeat, n in counts.items() if repeats is None or repeat <= repeats)

        return Judged(add(self.rejected), add(self.judged))


class JudgedRuns:
    """What the rules of a plan said of all runs of an experiment."""

    def __init__(self, experiment: Experiment) -> None:
        """Read the runs: two statements where rules have rejected any, and none without rules.

        Those that were run again count as often as they were rejected. It takes one statement more.
        """
        self.baseline = experiment.baseline.name
        self._planned = experiment.repeats if experiment.extended_repeats else None
        self._sides: dict[tuple[int, str], dict[str, _Side]] = {}
        self._everywhere: dict[tuple[str, int | None], Judged] = {}
        if not experiment.rejection_rules:
            return
        columns = ("workload_id", "scale", "environment__name", "repeat")
        rejected = experiment.runs.filter(state=Run.State.FAILED, reason=REJECTED).order_by()
        messages = [*rejected.values_list(*columns, "message")]
        if experiment.rejected_again:
            again = experiment.events.filter(what=REJECTED_AGAIN, run__isnull=False).order_by()
            of_runs = [f"run__{column}" for column in columns]
            messages += again.values_list(*of_runs, "why")
        for workload, scale, name, repeat, message in messages:
            side = self._find(workload, scale, name)
            side.rejected[repeat] += 1
            side.judged[repeat] += 1
            side.rules.update(name_violated_rules(message))
        if not self._sides:
            return
        passed = experiment.runs.filter(state__in=PASSED).order_by().values(*columns)
        for workload, scale, name, repeat, count in passed.annotate(count=Count("pk")).values_list(
            *columns, "count"
        ):
            self._find(workload, scale, name).judged[repeat] += count

    def _find(self, workload: int, scale: str, environment: str) -> _Side:
        sides = self._sides.setdefault((workload, scale), {})
        return sides.setdefault(environment, _Side())

    def count(self, place: tuple[int, str], name: str, repeats: int | None = None) -> Judged:
        """Return the numbers of one environment at one place: its workload's key and its scale."""
        side = self._sides.get(place, {}).get(name)
        return side.count(repeats) if side else Judged(0, 0)

    def count_everywhere(self, name: str, repeats: int | None = None) -> Judged:
        """Return the numbers of one environment over all configurations."""
        if (name, repeats) not in self._everywhere:
            counts = (self.count(place, name, repeats) for place in self._sides)
            self._everywhere[name, repeats] = sum(counts, Judged(0, 0))
        return self._everywhere[name, repeats]

    def stamp(self, pair: Pair, place: tuple[int, str], after_repeats: Sequence[int]) -> Pair:
        """Return the pair, stamped if both sides were rejected too differently.

        Only the runs of the interim analysis that decided are counted.
        """
        if not self._sides:
            return pair
        analysis = pair.interim_analysis
        # 0 is a judgement outside the plan, which takes all runs, as the last one does.
        is_interim = analysis is not None and 0 < analysis.number < len(after_repeats)
        repeats = after_repeats[analysis.number - 1] if analysis and is_interim else None
        if repeats is None and not pair.extension:
            repeats = self._planned  # what was added later is of other configurations
        why = explain_unequal(
            self.count(place, pair.baseline, repeats),
            self.count(place, pair.environment, repeats),
            baseline_everywhere=self.count_everywhere(pair.baseline, repeats),
            environment_everywhere=self.count_everywhere(pair.environment, repeats),
            names=(pair.baseline, pair.environment),
        )
        if not why:
            return pair
        stamps = (*pair.stamps, Stamp.REJECTIONS_DIFFER)
        return replace(pair, stamps=stamps, reasons=(*pair.reasons, why))

    def list_rows(self, arms: Mapping[tuple[Workload, str], Sequence[str]]) -> list[Rejections]:
        """Return a row for each environment of each configuration, in the order of `arms`.

        No rows where no run at all was rejected: then every zero would be the same.
        """
        if not self._sides:
            return []
        rows = []
        for (workload, scale), names in arms.items():
            place = (workload.pk, scale)
            baseline = self.count(place, self.baseline)
            for name in names:
                judged = self.count(place, name)
                side = self._sides.get(place, {}).get(name, _Side())
                p = None if name == self.baseline else compute_fisher_p(baseline, judged)
                rules = dict(side.rules.most_common())
                rows.append(
                    Rejections(workload.name, scale, name, judged.rejected, judged.total, rules, p)
                )
        return rows
