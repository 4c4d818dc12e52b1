"""The verdict of a reproduction, beside the first study, and what differed between both."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dashboard.comparisons.paired_facts import (
    PairedFact,
    PairedFacts,
    Side,
    make_paired_facts,
    pair_values,
)
from dashboard.comparisons.panel_base import ExperimentPanel, Rows
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import ExperimentComparison, read_latest
from experiments.comparisons.environment_facts import read_facts_of_all
from experiments.models import Experiment
from experiments.reproductions.reproduction_verdicts import (
    Line,
    ReproductionVerdict,
    judge_reproduction,
)
from experiments.statistics import Pair

MOST_LINES = 100
NUMBERS = ("ratio", "log_se", "df", "p_same_effect", "p_difference", "p_not_reproduced")


@dataclass(frozen=True)
class ShownReproduction:
    """A reproduction, ready to be shown; without `first` its reader may not view that one."""

    first: Experiment | None
    verdict: ReproductionVerdict | None = None
    facts: PairedFacts | None = None
    sides: tuple[Side, Side] | None = None

    @property
    def lines(self) -> list[Line]:
        return self.verdict.lines[:MOST_LINES] if self.verdict else []

    @property
    def more(self) -> int:
        """Return how many lines are not shown."""
        return len(self.verdict.lines) - len(self.lines) if self.verdict else 0


class Reproduction(ExperimentPanel):
    """What an experiment that does another one again says about it."""

    name = "reproduction"
    heading = "Reproduction"

    def compute(
        self, comparison: ExperimentComparison, request: OpenRequest
    ) -> ShownReproduction | None:
        if not self.is_offered(comparison):
            return None
        again = comparison.experiment
        rows = Experiment.objects.visible_to(request.user).select_related("cluster", "baseline")
        first = rows.filter(pk=again.reproduces_id or 0).first()
        if first is None:
            return ShownReproduction(None)
        verdict = judge_reproduction(read_latest(first)[0], comparison)
        return ShownReproduction(
            first,
            verdict,
            make_paired_facts(_list_facts(first, again, verdict)),
            (
                Side("First study", address=first.get_absolute_url()),
                Side("Reproduction", address=again.get_absolute_url()),
            ),
        )

    def is_offered(self, comparison: ExperimentComparison) -> bool:
        return comparison.experiment.reproduction is not None

    def export(self, comparison: ExperimentComparison) -> dict[str, Rows]:
        """Return the lines of the verdict, where the first study is open to whoever reads this."""
        again = comparison.experiment
        if not self.is_offered(comparison) or again.reproduces is None:
            return {}
        if not _is_open_to_readers_of(again, again.reproduces):
            return {}
        verdict = judge_reproduction(read_latest(again.reproduces)[0], comparison)
        overall: Rows = []
        if verdict.overall:
            overall = [{"outcome": verdict.overall.outcome, "reason": verdict.overall.reason}]
        return {
            "reproduction": [_make_row(line) for line in verdict.lines],
            "reproduction_overall": overall,
        }


def _is_open_to_readers_of(again: Experiment, first: Experiment) -> bool:
    """Return whether whoever may view one experiment may surely view the other one."""
    # Who views a public one may have no account, and no link to the other one.
    inside = ("private", "groups", "members")
    return again.visibility in inside and first.visibility in ("members", "public")


def _make_row(line: Line) -> dict[str, Any]:
    judged = asdict(line.judged)
    row: dict[str, Any] = {
        "configuration": line.configuration,
        "metric": line.metric,
        "environment": line.environment,
        "outcome": line.judged.outcome,
        "reason": line.judged.reason,
    }
    for which, pair in (("first", line.judged.first), ("again", line.judged.again)):
        row |= _describe_pair(which, pair)
    row |= {f"difference_{name}": judged[name] for name in NUMBERS}
    for name in ("ci90", "ci95", "bounds"):
        low, high = judged[name] or (None, None)
        row |= {f"difference_{name}_low": low, f"difference_{name}_high": high}
    return row


def _describe_pair(which: str, pair: Pair | None) -> dict[str, Any]:
    known = ("verdict", "ratio", "log_se", "df")
    return {f"{which}_{name}": getattr(pair, name) if pair else None for name in known}


def _list_facts(
    first: Experiment, again: Experiment, verdict: ReproductionVerdict
) -> list[PairedFact]:
    """Return what the snapshots of both say, environment by environment."""
    known = read_facts_of_all([first.pk, again.pk])
    before, now = known.get(first.pk, {}), known.get(again.pk, {})
    return [
        PairedFact(f"{name_first}: {fact.name}", fact.left, fact.right)
        for name_first, name_again in verdict.names
        for fact in pair_values(before.get(name_first, {}), now.get(name_again, {}))
    ]
