"""The words of claims are the same wherever a claim is made, and fit what was measured."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from experiments.statistics import Measured, Pair, Verdict
from experiments.statistics.across_configurations import summarise_environments
from experiments.statistics.claims import (
    AMOUNTS,
    MIXED,
    SPEED,
    choose_wording,
    claim_difference,
    claim_shown,
    describe_margin,
    name_goal,
    name_verdict,
    quote_goal,
)
from experiments.statistics.extended import Extended
from experiments.statistics.margins import Goal, Margin
from experiments.statistics.metric_rules import MetricsRule
from experiments.statistics.several_metrics import Part, judge_together
from experiments.statistics.values import Stamp
from tests.experiments.statistics.test_across_configurations import BARE_CLOSE, BOX_CLOSE, pair

UNITS = ("s", "B", "J")
SPEEDS = ("slower", "faster")


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("margin", [Margin.of(0.02), Margin.make("not slower", 0.02)])
def test_one_pair_all_configurations_and_all_metrics_claim_in_the_same_words(unit, margin) -> None:
    """Each had a writer of its own, and each said something else of memory."""
    shown = pair(BARE_CLOSE, BOX_CLOSE, margin=margin, unit=unit)
    (everywhere,) = summarise_environments([shown, shown])
    parts = [Part(Measured(name, unit, "lower", name), shown) for name in ("one", "two")]
    (overall,) = judge_together([parts], MetricsRule.ALL, margin.goal, "bare", ["box"])
    claim = shown.claim.partition(" bare")[0]
    goal = quote_goal(margin.goal, choose_wording([shown]))
    assert f"p of {goal} " in everywhere.evidence
    assert f"p of {goal} " in overall.evidence
    assert everywhere.claim.startswith(f"{claim} bare ")
    assert overall.claim == f"{claim} bare in both decisive metrics"
    assert (unit == "s") == (choose_wording([shown]) is SPEED)


@pytest.mark.parametrize(("many", "goal"), list(product([False, True], Goal)))
def test_several_environments_and_one_have_their_own_verbs(many: bool, goal: Goal) -> None:
    who = "a and b" if many else "a"
    for wording in (SPEED, AMOUNTS, MIXED):
        for is_shown in (True, False):
            verb = (
                claim_shown(who, "bare", goal, wording, is_shown=is_shown, are_many=many)
                .removeprefix(f"{who} ")
                .split()[0]
            )
            assert verb in (("are", "do") if many else ("is", "does"))


def test_amounts_are_more_and_less_and_no_sentence_of_them_is_slow() -> None:
    uneven = Margin(slower=0.05, faster=0.02)
    texts = [
        *(name_verdict(verdict, AMOUNTS) for verdict in Verdict),
        *(name_goal(goal, AMOUNTS) for goal in Goal),
        *(quote_goal(goal, AMOUNTS) for goal in Goal),
        *(claim_shown("a", "bare", goal, AMOUNTS, margin=uneven) for goal in Goal),
        claim_difference(Verdict.SLOWER, AMOUNTS, "3 %"),
        claim_difference(Verdict.FASTER, AMOUNTS),
        describe_margin(uneven, AMOUNTS),
        AMOUNTS.cost,
    ]
    assert not [text for text in texts for speed in SPEEDS if speed in text]
    assert claim_difference(Verdict.SLOWER, AMOUNTS, "3 %") == "needs 3 % more"
    assert claim_difference(Verdict.FASTER, SPEED) == "is faster"
    assert name_goal(Goal.NOT_SLOWER, SPEED) == "not slower"
    assert describe_margin(uneven, MIXED) == "2 % better to 5 % worse"


def test_both_kinds_together_are_worse_and_better() -> None:
    time = Pair(
        baseline="bare", environment="a", unit="s", better="lower", margin=0.02, paired=True
    )
    assert choose_wording([time, replace(time, unit="J")]) is MIXED
    assert choose_wording([]) is SPEED


@pytest.mark.parametrize("unit", UNITS)
def test_a_rare_run_that_needs_much_is_slow_only_where_times_are_measured(unit: str) -> None:
    bare = [10.0, 10.01, 9.99, 10.02, 9.98, 10.0]
    tailed = pair(bare, [*bare[:-1], 14.0], unit=unit)
    (reason,) = [
        reason
        for stamp, reason in zip(tailed.stamps, tailed.reasons, strict=True)
        if stamp is Stamp.TAIL
    ]
    assert ("slow" in reason) == (unit == "s")
    assert reason.endswith("are a cost that so few runs cannot measure.")


def test_an_extension_of_memory_is_told_without_a_speed() -> None:
    extended = Extended(planned=5, added=5, level=0.0294, error_difference=0.06, error_goal=0.07)
    reason = extended.describe_reservation("equivalent", "more or less")
    assert "a ratio of 1 is called more or less in 6.0 % of experiments" in reason
    assert "a ratio at the margin equivalent in 7.0 %" in reason
