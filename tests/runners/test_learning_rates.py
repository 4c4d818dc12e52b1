"""Schedules of the learning rate: what they promise for all lengths, and that steps obey them."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.payload.recorder import ResultError
from runners.payload.training.loop import Schedule
from runners.payload.training.schedules import (
    RatePlan,
    cosine_of_half_turns,
    learning_rate_at,
    plan_learning_rates,
    raise_to_power,
)
from runners.workloads import WORKLOADS
from tests.runners.payload_runs import IN_A_HURRY, run_payload

CNN = WORKLOADS["cnn"]
RATES = st.floats(1e-6, 10)


@st.composite
def plans(draw: st.DrawFn, schedule: str) -> RatePlan:
    steps = draw(st.integers(2, 5000))
    return RatePlan(
        base=draw(RATES),
        schedule=schedule,
        steps=steps,
        warm_up_steps=draw(st.integers(0, steps - 1)),
        decay_every=draw(st.integers(1, 2 * steps)),
        decay_factor=draw(st.floats(0, 1)),
        final=draw(st.floats(0, 1e-6)),
    )


@given(plan=st.sampled_from(["constant", "step", "cosine"]).flatmap(plans), data=st.data())
def test_the_rate_rises_linearly_and_is_never_above_its_base(plan: RatePlan, data: Any) -> None:
    step = data.draw(st.integers(0, plan.steps - 1))
    rate = learning_rate_at(step, plan)
    assert 0 <= rate <= plan.base * (1 + 1e-15)
    if step < plan.warm_up_steps:
        assert rate == pytest.approx(plan.base * (step + 1) / plan.warm_up_steps)
        assert learning_rate_at(plan.warm_up_steps - 1, plan) == plan.base


@given(plan=plans("step"))
def test_the_schedule_step_changes_where_it_says_and_nowhere_else(plan: RatePlan) -> None:
    plan = plan._replace(warm_up_steps=0)
    rates = [learning_rate_at(step, plan) for step in range(plan.steps)]
    for step in range(1, plan.steps):
        if step % plan.decay_every:
            assert rates[step] == rates[step - 1]
        else:
            assert rates[step] == pytest.approx(
                rates[step - 1] * plan.decay_factor, abs=1e-300, rel=1e-9
            )


@given(plan=plans("cosine"))
def test_the_schedule_cosine_falls_from_the_base_towards_the_final_rate(plan: RatePlan) -> None:
    rates = [learning_rate_at(step, plan) for step in range(plan.warm_up_steps, plan.steps)]
    assert rates[0] == plan.base
    assert all(second <= first for first, second in pairwise(rates))
    assert rates[-1] >= plan.final * (1 - 1e-12)
    last = RatePlan(base=1.0, schedule="cosine", steps=10)
    assert learning_rate_at(5, last) == 0.5
    assert learning_rate_at(10, last) == 0.0, "the rate that a further step would have"


@given(share=st.floats(0, 1))
def test_the_cosine_is_that_of_mathematics(share: float) -> None:
    assert cosine_of_half_turns(share) == pytest.approx(math.cos(math.pi * share), abs=1e-15)


@given(base=st.floats(0, 1), exponent=st.integers(0, 10_000))
def test_powers_are_those_of_mathematics(base: float, exponent: int) -> None:
    assert raise_to_power(base, exponent) == pytest.approx(base**exponent, rel=1e-10, abs=1e-300)


def test_rates_are_the_same_numbers_everywhere() -> None:
    """Bit by bit, as computed once: no image's libraries may change them."""
    cosine = RatePlan(base=0.1, schedule="cosine", steps=7, warm_up_steps=2, final=0.001)
    assert [learning_rate_at(step, cosine).hex() for step in range(7)] == [
        "0x1.999999999999ap-5",
        "0x1.999999999999ap-4",
        "0x1.999999999999ap-4",
        "0x1.72e0b8651adafp-4",
        "0x1.0d8076dbe38f3p-4",
        "0x1.20636c64e4e9dp-5",
        "0x1.568ba549d9494p-7",
    ]
    drops = RatePlan(base=0.1, schedule="step", steps=7, decay_every=3)
    assert [learning_rate_at(step, drops) for step in range(7)] == [
        *[0.1] * 3,
        *[0.1 * 0.1] * 3,
        0.1 * (0.1 * 0.1),
    ]


def test_lengths_are_epochs_where_that_of_the_training_is() -> None:
    parameters = CNN.clean(
        {"schedule": "step", "decay_every": 2, "learning_rate_warm_up": 1, "epochs": 5}
    )
    plan = plan_learning_rates(parameters, Schedule(50, 1, 0, 10))
    assert (plan.steps, plan.warm_up_steps, plan.decay_every) == (50, 10, 20)
    in_steps = plan_learning_rates({**parameters, "epochs": 0}, Schedule(50, 1))
    assert (in_steps.warm_up_steps, in_steps.decay_every) == (1, 2)


def test_plans_of_before_there_were_schedules_keep_their_rate() -> None:
    plan = plan_learning_rates({"learning_rate": 0.25}, Schedule(5, 1))
    assert plan.is_constant
    assert {learning_rate_at(step, plan) for step in range(5)} == {0.25}


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"schedule": "step"}, "needs decay_every"),
        ({"learning_rate_warm_up": 400}, "rises for 400 steps leaves none of the 400"),
        ({"learning_rate_warm_up": 3, "epochs": 3}, "rises for 3 epochs leaves none of the 3"),
    ],
)
def test_what_cannot_be_scheduled_is_refused_before_the_launch(
    parameters: dict[str, Any], reason: str
) -> None:
    refusals = CNN.list_refusals(CNN.clean(parameters), nodes=1, gpus=1, processes=1)
    assert [text for text in refusals if reason in text], refusals
    forward = CNN.clean({**parameters, "mode": "forward"})
    assert not CNN.list_refusals(forward, nodes=1, gpus=1, processes=1)


def test_the_payload_refuses_it_too() -> None:
    base = {"learning_rate": 0.1}
    with pytest.raises(ResultError, match="needs decay_every"):
        plan_learning_rates({**base, "schedule": "step"}, Schedule(5, 1))
    with pytest.raises(ResultError, match="rises for 5 steps leaves none of the 5"):
        plan_learning_rates({**base, "learning_rate_warm_up": 5}, Schedule(5, 1))


def test_steps_obey_their_rates_and_these_are_recorded(tmp_path: Path) -> None:
    """With a rate of zero from the third step on nothing is learnt any more."""
    parameters = CNN.clean(
        {
            "framework": "jax",
            "network": "small",
            "image_size": 8,
            "batch_size": 4,
            "steps": 6,
            "burn_in": 1,
            "optimizer": "sgd",
            "learning_rate": 0.5,
            "schedule": "step",
            "decay_every": 2,
            "decay_factor": 0,
            "evaluate_every": 3,
        }
    )
    ran = run_payload(tmp_path, "cnn", parameters, variables=IN_A_HURRY)
    assert ran.result, ran.stderr
    series = json.loads(ran.result)["series"]
    assert series["learning_rate"] == {"unit": "1", "values": [0.5, 0.5, 0, 0, 0, 0]}
    losses = series["loss"]["values"]
    assert len(set(losses[:3])) == 3, "two steps changed the network"
    assert set(losses[2:]) == {losses[2]}, "and the others did not"
    assert len(series["top_5_accuracy"]["values"]) == len(series["accuracy"]["values"]) == 2
