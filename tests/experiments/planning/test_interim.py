"""When an experiment's data are judged, and what is said until then: states without a database."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from experiments.planning.interim import WHY, Judgement, Stage

ONCE = Stage(
    after_repeats=(5,),
    taken=0,
    planned=5,
    ended=2,
    unit="block",
    ended_for_next=2,
    planned_for_next=5,
    alive=True,
    cancelled=False,
    stopped_at=None,
    states=Counter(),
)
TWICE = replace(ONCE, after_repeats=(5, 10), planned=10)


def test_each_planned_analysis_has_its_level() -> None:
    assert (ONCE.level, TWICE.level) == (0.05, 0.0294)
    assert ONCE.plan == "one, after all repeats"
    assert TWICE.plan == "2: after 5 and 10 repeats, each at the level 0.0294"
    thrice = replace(TWICE, after_repeats=(5, 10, 15))
    assert thrice.plan == "3: after 5, 10 and 15 repeats, each at the level 0.0221"


@pytest.mark.parametrize(
    ("changes", "early"),
    [
        ({}, False),
        ({"cancelled": True}, True),
        ({"cancelled": True, "taken": 1}, True),
        ({"cancelled": True, "taken": 2}, False),
        ({"cancelled": True, "taken": 1, "stopped_at": 1}, False),
    ],
)
def test_it_stopped_early_if_planned_runs_were_cancelled_outside_an_analysis(
    changes: dict[str, int], early: bool
) -> None:
    assert replace(TWICE, **changes).stopped_early is early


@pytest.mark.parametrize(("taken", "repeats"), [(0, 0), (1, 5), (2, 5)])
def test_repeats_are_settled_by_an_analysis_before_the_last(taken: int, repeats: int) -> None:
    assert replace(TWICE, taken=taken).settled == repeats


FIRST, LAST = Judgement(1, 5), Judgement(2, None)


@pytest.mark.parametrize(
    ("changes", "judgements"),
    [
        ({}, []),
        ({"taken": 1}, [FIRST]),
        ({"taken": 2, "alive": False}, [FIRST, LAST]),
        ({"taken": 1, "cancelled": True}, [FIRST]),
        ({"taken": 1, "cancelled": True, "alive": False}, [FIRST, Judgement(0, None)]),
        ({"taken": 2, "cancelled": True, "alive": False}, [FIRST, LAST]),
        ({"cancelled": True, "alive": False}, [Judgement(0, None)]),
        (
            {"taken": 1, "cancelled": True, "alive": False, "stopped_at": 1},
            [FIRST, Judgement(0, None, decides=False)],
        ),
        ({"taken": 2, "stopped_at": 1}, [FIRST]),
    ],
)
def test_what_may_be_judged(changes: dict[str, int], judgements: list[Judgement]) -> None:
    assert list(replace(TWICE, **changes).judgements) == judgements


@pytest.mark.parametrize(
    ("changes", "waiting", "brief"),
    [
        (
            {"after_repeats": (5,), "planned": 5},
            f"The verdict appears when all 5 blocks have ended; 2 have. {WHY}",
            "verdict after 5 blocks; 2 so far",
        ),
        (
            {"after_repeats": (5,), "planned": 5, "ended": 1},
            f"The verdict appears when all 5 blocks have ended; 1 has. {WHY}",
            "verdict after 5 blocks; 1 so far",
        ),
        (
            {"ended_for_next": 1},
            "Interim analysis 1 of 2 comes when the first 5 repeats of every configuration have "
            f"ended; 1 of their 5 blocks has. {WHY}",
            "interim analysis 1 of 2 after 5 blocks; 1 so far",
        ),
        (
            {"after_repeats": (1,), "planned": 1, "ended": 0},
            f"The verdict appears when its one block has ended; 0 have. {WHY}",
            "verdict after 1 block; 0 so far",
        ),
        (
            {"after_repeats": (1,), "planned": 2, "unit": "run"},
            f"The verdict appears when both runs have ended; 2 have. {WHY}",
            "verdict after 2 runs; 2 so far",
        ),
        (
            {},
            "Interim analysis 1 of 2 comes when the first 5 repeats of every configuration have "
            f"ended; 2 of their 5 blocks have. {WHY}",
            "interim analysis 1 of 2 after 5 blocks; 2 so far",
        ),
        (
            {"taken": 1, "ended_for_next": 7, "planned_for_next": 10},
            "Interim analysis 2 of 2 comes when all 10 blocks have ended; 7 of their 10 blocks "
            "have.",
            "interim analysis 2 of 2 after 10 blocks; 7 so far",
        ),
        (
            {"cancelled": True},
            "It is being cancelled: the verdict comes when the runs under way have ended.",
            "being cancelled",
        ),
        ({"alive": False}, "", ""),
        ({"stopped_at": 1}, "", ""),
    ],
)
def test_it_says_what_it_waits_for(changes: dict[str, int], waiting: str, brief: str) -> None:
    stage = replace(TWICE, **changes)
    assert (stage.waiting, stage.brief) == (waiting, brief)


def test_the_stamp_of_an_early_end_says_how_far_it_came() -> None:
    expected = f"Stopped after 2 of 10 blocks, outside the planned interim analyses. {WHY}"
    assert TWICE.why_early == expected
