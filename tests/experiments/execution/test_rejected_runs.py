"""Runs that a rule of the plan rejects for what their node did."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import pytest

from experiments.execution import run_ends
from experiments.models import Experiment, Measurement, Run
from experiments.planning.freeze import freeze_definition
from runners.node_samples import PAGED, Samples
from tests.conftest import finish

pytestmark = pytest.mark.django_db
Make = Callable[..., Experiment]


def swapping(_: object) -> Samples:
    """Return samples of a node that swaps all the time, in every century."""
    return Samples(tracks={(PAGED, None): [(number / 10, number) for number in range(20)]})


def test_a_run_is_rejected_for_what_its_node_did_and_keeps_no_number(experiment: Make) -> None:
    made = experiment(repeats=1, reject_swap=True)
    assert made.plan
    assert made.plan["reject"] == {"swap": True}
    judged: list[tuple[object, ...]] = []

    def judge_all(*arguments: object) -> object:
        judged.append(arguments)
        rules, samples, *_ = arguments
        return real(rules, samples, 0, 2)

    real = run_ends.judge
    with (
        mock.patch.object(run_ends, "read_samples", swapping),
        mock.patch.object(run_ends, "judge", judge_all),
    ):
        finish(made)
    runs = list(made.runs.all())
    assert {(run.state, run.reason) for run in runs} == {(Run.State.FAILED, "rejected")}
    assert {run.message for run in runs} == {
        "By the plan's rules: 19 pages went to swap or came from it."
    }
    assert not Measurement.objects.exists()
    assert len(judged) == len(runs)
    assert all(len(arguments) == 4 for arguments in judged), "no number of the run is among them"


def test_a_run_too_short_for_samples_counts_and_says_so(experiment: Make) -> None:
    made = experiment(repeats=1, reject_swap=True, reject_throttled=True)
    with mock.patch.object(run_ends, "read_samples", return_value=Samples()):
        finish(made)
    for run in made.runs.all():
        assert run.state == Run.State.SUCCEEDED
        assert run.message.endswith("The plan's rules on swap were not applied: no samples.")


def test_without_rules_plans_are_what_they_were(experiment: Make) -> None:
    made = experiment(repeats=1)
    assert "reject" not in freeze_definition(made, 1)
    assert all("reject" not in run.spec for run in made.runs.all())


def test_each_rule_changes_the_plan(experiment: Make) -> None:
    made = experiment(repeats=1)
    made.reject_below_mhz, made.reject_throttled = 1500, True
    assert freeze_definition(made, 1)["reject"] == {"throttled": True, "least_mhz": 1500}
    assert made.rejection_texts == [
        "heat or the hardware slowed a GPU down",
        "a GPU in use had a mean clock below 1,500 MHz",
    ]
