"""Verdicts of A/A tests: what they say about a machine, and the last ones of each partition."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from experiments.comparisons.experiment_comparison import ExperimentComparison
from experiments.models import Cluster, Experiment, User
from experiments.statistics import Pair, Stamp, Verdict, numbers

SHOWN = 5
"""Tests of each partition that its cluster's page shows."""
ORDER = (
    Verdict.NOT_ATTRIBUTABLE,
    Verdict.SLOWER,
    Verdict.FASTER,
    Verdict.NO_INFERENCE,
    Verdict.INCONCLUSIVE,
    Verdict.NOT_SLOWER,
    Verdict.EQUIVALENT,
)
"""Of several verdicts of one test the first of these is shown, and the others are counted.

An alarm comes before all of them: see `_rank`.
"""
ITSELF = "is the same environment as the baseline, measured a second time (A/A test)"
ALARM = (
    "The difference is an alarm about the machine, or about how it was measured, and not about a "
    "container: there is none between them."
)
BY_CHANCE = "At most one such test in 20 ends so by chance."
AMONG_MANY = (
    "A difference, but none that survives the correction for so many comparisons: chance explains "
    "it. Run the test once more before you look for a cause."
)
SMALL = (
    "The machine shows a difference where there is none, and it is smaller than the margin: what "
    "containers cost here is known no better than that. One such test in 20 ends so by chance."
)
EQUAL = "Here the machine shows no difference where there is none."
NOT_SHOWN = (
    "The runs vary too much to show that an environment equals itself: what containers cost here "
    "would be as uncertain. Plan more repeats, or look for what disturbs the node."
)
NOTHING_SAID = "Nothing can be said of the machine yet."
UNLIKE = (
    "Both sides of one environment did not meet the same conditions: see which facts differ, and "
    "what changes them between two runs of one job."
)
DIFFERENCES = (Verdict.SLOWER, Verdict.FASTER)


@dataclass(frozen=True)
class AaVerdict:
    """The verdict of an A/A test: of several, the worst one."""

    experiment: int
    question: str
    launched_at: datetime | None
    verdict: str
    ratio: str
    """With its interval: "1.003 [0.998, 1.008]"; "–" where it is not known."""
    level: str
    """The level of the interval: "95 %"."""
    configuration: str
    others: int
    """How many more verdicts the test has."""
    survives: bool = True
    """Whether the verdict survives Holm's correction for all comparisons of the test."""

    @property
    def is_alarm(self) -> bool:
        return self.verdict in DIFFERENCES and self.survives


@dataclass(frozen=True)
class Meaning:
    """What the A/A test of a comparison says about its machine."""

    text: str
    is_alarm: bool


def list_aa_pairs(comparison: ExperimentComparison) -> list[tuple[str, Pair]]:
    """Return each pair of an environment with itself, after the name of its configuration."""
    names = set(comparison.same_as_baseline)
    return [
        (group.name, pair)
        for group in comparison.groups
        for pair in group.pairs
        if pair.environment in names
    ]


def explain_aa_test(comparison: ExperimentComparison) -> Meaning | None:
    """Return what a comparison's A/A pairs say about the machine; None where it has none."""
    pairs = [pair for _, pair in list_aa_pairs(comparison)]
    if not pairs:
        return None
    worst = min(pairs, key=_rank)
    sentence = _choose_sentence(worst)
    if len(pairs) > 1:
        count = sum(_choose_sentence(pair) == sentence for pair in pairs)
        sentence = f"In {count} of {len(pairs)} comparisons of it: {sentence}"
    is_alarm = _is_alarm(worst)
    if is_alarm:
        sentence += f" {_describe_chance(worst)}"
    text = f"{numbers.listed(sorted({pair.environment for pair in pairs}))} {ITSELF}. {sentence}"
    return Meaning(text, is_alarm)


def _choose_sentence(pair: Pair) -> str:
    """Return what the verdict on an environment and itself says about the machine."""
    if pair.verdict in DIFFERENCES:
        return ALARM if _is_alarm(pair) else AMONG_MANY
    if pair.verdict is Verdict.INCONCLUSIVE:
        return NOT_SHOWN
    if pair.verdict is Verdict.NO_INFERENCE:
        return NOTHING_SAID
    if pair.verdict is Verdict.NOT_ATTRIBUTABLE:
        return UNLIKE
    interval = pair.ci_difference
    return EQUAL if interval is None or interval[0] <= 1 <= interval[1] else SMALL


def _describe_chance(pair: Pair) -> str:
    """Return how often chance alone gives such an alarm."""
    if pair.extension and pair.extension.error_difference:
        share = 100 * pair.extension.error_difference
        return f"At most {share:.1f} of 100 such tests, extended as this one, end so by chance."
    return BY_CHANCE


def _rank(pair: Pair) -> tuple[bool, int]:
    """Return the place of a pair among others: an alarm in either direction comes first.

    Neither a difference that chance explains nor one that facts explain may hide it.
    """
    return not _is_alarm(pair), ORDER.index(pair.verdict)


def _is_alarm(pair: Pair) -> bool:
    return pair.verdict in DIFFERENCES and _survives(pair)


def _survives(pair: Pair) -> bool:
    return Stamp.NOT_AFTER_HOLM not in pair.stamps


def describe_aa_verdicts(
    comparison: ExperimentComparison, *, is_over: bool
) -> dict[str, Any] | None:
    """Return what is kept of a comparison's A/A pairs, as JSON; None before all runs have ended."""
    pairs = list_aa_pairs(comparison)
    if not (pairs and is_over):
        return None
    name, pair = min(pairs, key=lambda named: _rank(named[1]))
    return {
        "verdict": str(pair.verdict),
        "ratio": pair.ratio,
        "interval": pair.ci_difference,
        "level": comparison.levels[0],
        "configuration": name,
        "others": len(pairs) - 1,
        "survives": _survives(pair),
    }


def list_last_aa_verdicts(cluster: Cluster, reader: User) -> dict[str, list[AaVerdict]]:
    """Return the last A/A tests, the newest first, by the name of their partition, "" for none.

    Those that `reader` may see and nobody has archived. One statement, which computes nothing: it
    reads what was kept when the runs had ended, whichever version of Tare has computed it.
    """
    newest = Window(
        RowNumber(),
        partition_by=F("partition"),
        order_by=[F("launched_at").desc(), F("pk").desc()],
    )
    rows = (
        Experiment.objects.visible_to(reader)
        .filter(
            cluster=cluster,
            archived_at=None,
            launched_at__isnull=False,
            kept_comparison__aa_verdicts__isnull=False,
            kept_comparison__failed_at=None,
        )
        .annotate(number=newest)
        .filter(number__lte=SHOWN)
        .order_by("partition__name", "number")
        .values_list(
            "partition__name", "pk", "question", "launched_at", "kept_comparison__aa_verdicts"
        )
    )
    by_partition: dict[str, list[AaVerdict]] = {}
    kept: Any  # not null: they are filtered by that
    for partition, pk, question, launched_at, kept in rows:
        verdict = AaVerdict(
            pk,
            question,
            launched_at,
            kept["verdict"],
            numbers.ratio(kept["ratio"], kept["interval"]),
            kept["level"],
            kept["configuration"],
            kept["others"],
            kept.get("survives", True),  # an earlier Tare did not tell
        )
        by_partition.setdefault(partition or "", []).append(verdict)
    return by_partition
