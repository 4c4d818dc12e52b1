"""A verdict is held against the facts of those blocks alone that it rests on."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.models import Experiment, Snapshot
from experiments.statistics import Stamp, Verdict
from tests.experiments.planning.test_stages import SAME, SLOW, WILD, end_all, launched, read

pytestmark = pytest.mark.django_db


def keep(experiment: Experiment, *, odd: int) -> None:
    """Give all runs one CPU in their snapshots, and another one to the container in a repeat."""
    snapshots = Snapshot.objects
    one, other = (snapshots.keep({"inside": {"cpu": cpu}, "outside": {}}) for cpu in "xy")
    experiment.runs.update(snapshot=one)
    runs = experiment.runs.filter(repeat=odd).exclude(environment=experiment.baseline)
    assert runs.update(snapshot=other) == 1


@pytest.mark.parametrize("design", [{}, {"design": "independent"}], ids=["paired", "independent"])
def test_a_later_block_does_not_unsay_a_verdict(design: dict[str, Any]) -> None:
    experiment = launched(**design)
    end_all(experiment, SLOW)
    keep(experiment, odd=8)
    (before,) = read(experiment).pairs
    assert before.verdict is Verdict.SLOWER
    end_all(experiment, SAME, first=6)
    (pair,) = read(experiment).pairs
    assert (pair.verdict, pair.stamps, pair.claim) == (before.verdict, before.stamps, before.claim)
    assert pair.interim_analysis
    assert pair.interim_analysis.later_ratio


@pytest.mark.parametrize("odd", [2, 8])
def test_a_verdict_of_all_blocks_rests_on_each(odd: int) -> None:
    experiment = launched()
    end_all(experiment, WILD)
    end_all(experiment, SLOW, first=6)
    keep(experiment, odd=odd)
    (pair,) = read(experiment).pairs
    assert pair.interim_analysis
    assert pair.interim_analysis.number == 2
    assert pair.verdict is Verdict.NOT_ATTRIBUTABLE
    assert Stamp.CONFOUNDED in pair.stamps


def test_an_early_verdict_is_not_attributable_by_a_block_that_it_rests_on() -> None:
    experiment = launched()
    end_all(experiment, (*SLOW, *SAME))
    keep(experiment, odd=3)
    (pair,) = read(experiment).pairs
    assert pair.verdict is Verdict.NOT_ATTRIBUTABLE
    assert pair.verdict_by_numbers is Verdict.SLOWER
    assert pair.facts
    assert pair.facts.pairs == 5
