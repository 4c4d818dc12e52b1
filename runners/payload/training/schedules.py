"""Learning rates by step: constant, step or cosine, after a linear warm-up.

The rates are computed here, by one function, for every framework. It uses additions,
multiplications and divisions alone, which IEEE 754 rounds alike everywhere: no library of
mathematical functions, of which images bring different ones, has a say in a rate.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple

from ..recorder import ResultError
from .loop import Schedule

CONSTANT, STEP, COSINE = "constant", "step", "cosine"
PI = 3.141592653589793
COSINE_TERMS = 12  # the thirteenth is below 1e-17 up to a quarter of a turn


class RatePlan(NamedTuple):
    """The learning rates of one training. All lengths are in steps."""

    base: float
    schedule: str = CONSTANT
    steps: int = 1  # of the whole training
    warm_up_steps: int = 0
    decay_every: int = 0  # of the schedule `step`
    decay_factor: float = 0.1
    final: float = 0.0  # that the schedule `cosine` approaches

    @property
    def is_constant(self) -> bool:
        return self.schedule == CONSTANT and not self.warm_up_steps


def learning_rate_at(step: int, plan: RatePlan) -> float:
    """Return the learning rate of a step, counted from 0.

    The warm-up of w steps rises linearly and reaches the base rate in its last one: (step + 1) / w
    of it (Goyal et al. 2017, section 2.2). `step` multiplies the base by the factor after each
    `decay_every` steps, counted from the first one. `cosine` falls from the base after the warm-up
    to the final rate along half a cosine (Loshchilov and Hutter 2017, without restarts).
    """
    if step < plan.warm_up_steps:
        return plan.base * ((step + 1) / plan.warm_up_steps)
    if plan.schedule == STEP:
        return plan.base * raise_to_power(plan.decay_factor, step // plan.decay_every)
    if plan.schedule == COSINE:
        share = (step - plan.warm_up_steps) / (plan.steps - plan.warm_up_steps)
        height = 0.5 * (1.0 + cosine_of_half_turns(share))
        return plan.final + (plan.base - plan.final) * height
    return plan.base


def plan_learning_rates(parameters: Dict[str, Any], planned: Schedule) -> RatePlan:
    """Return the learning rates of a training of this length, from the parameters of `cnn`.

    Lengths in the parameters are epochs where that of the training is. Raises ResultError.
    """
    unit_steps = planned.epoch or 1
    plan = RatePlan(
        base=float(parameters["learning_rate"]),
        schedule=parameters.get("schedule", CONSTANT),
        steps=planned.steps,
        warm_up_steps=parameters.get("learning_rate_warm_up", 0) * unit_steps,
        decay_every=parameters.get("decay_every", 0) * unit_steps,
        decay_factor=float(parameters.get("decay_factor", 0.1)),
        final=float(parameters.get("final_learning_rate", 0.0)),
    )
    if plan.schedule == STEP and not plan.decay_every:
        raise ResultError("schedule=step needs decay_every, the length of a step of the schedule")
    if plan.warm_up_steps and plan.warm_up_steps >= plan.steps:
        raise ResultError(
            f"a learning rate that rises for {plan.warm_up_steps} steps leaves none of the "
            f"{plan.steps} steps; choose a shorter learning_rate_warm_up"
        )
    return plan


def raise_to_power(base: float, exponent: int) -> float:
    """Return base ** exponent for a whole exponent >= 0, by multiplications alone."""
    result, square = 1.0, base
    while exponent:
        if exponent & 1:
            result *= square
        square *= square
        exponent >>= 1
    return result


def cosine_of_half_turns(share: float) -> float:
    """Return cos(pi * share) for a share from 0 to 1, to 1e-15, by its power series."""
    if share > 0.5:
        return -cosine_of_half_turns(1.0 - share)
    square = (PI * share) * (PI * share)
    value = 1.0
    for term in range(COSINE_TERMS, 0, -1):
        value = 1.0 - value * square / ((2 * term - 1) * (2 * term))
    return value
