"""A planted cause is found among the node's samples, and chance seldom passes for one."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from experiments.statistics import Measured, Sample
from experiments.statistics.coincidences import (
    CLOCK,
    CPU,
    HEAT,
    MEMORY,
    OTHERS,
    SLOWDOWN,
    SWAPPED,
    Conditions,
    Sampled,
    describe_coincidences,
    find_coincidences,
)
from experiments.statistics.unsteadiness import (
    center_samples,
    describe_unsteadiness,
    find_unsteadiness,
)

TIME = Measured("step_time", "s", "lower", "Time per step")
CALM = {CPU: 15.0, CLOCK: 1.98e9, SLOWDOWN: 0.0, HEAT: 60.0, MEMORY: 20 * 2**30, SWAPPED: 0.0}
"""What a node shows of its own, whoever runs there."""
NOISE = {CPU: 3.0, CLOCK: 5e6, SLOWDOWN: 0.01, HEAT: 1.0, MEMORY: 2**28, SWAPPED: 20.0}
Course = Callable[[int, int, random.Random], float]
"""How disturbed a block is, from 0 to 1, by its number and how many there are."""


def to_and_fro(block: int, blocks: int, draw: random.Random) -> float:
    return draw.random()


def drifting(block: int, blocks: int, draw: random.Random) -> float:
    return block / (blocks - 1)


def make_runs(
    course: Course,
    effects: dict[str, float],
    *,
    blocks: int = 12,
    seed: int = 1,
    cost: float = 0.4,
    noise: float = 0.02,
    better: str = "lower",
) -> tuple[list[Sample], dict[str, Conditions]]:
    """Return runs that a disturbance slows down by up to `cost`, and what was sampled meanwhile.

    `effects`: what the full disturbance adds to a quantity. The container has more CPU use of its
    own, which is no disturbance.
    """
    draw = random.Random(seed)
    samples, conditions = [], {}
    for block in range(blocks):
        disturbed = course(block, blocks, draw)
        for name in ("bare", "box"):
            log = cost * disturbed + draw.gauss(0, noise) + (0.1 if name == "box" else 0)
            value = math.exp(log if better == "lower" else -log)
            run, start = f"{name}{block}", 1e9 + 60 * len(samples)
            samples.append(Sample(run, f"{block:03}", name, value, "n1", start))
            conditions[run] = {
                quantity: max(
                    usual
                    + NOISE[quantity] * draw.gauss(0, 1)
                    + effects.get(quantity, 0.0) * disturbed
                    + (30.0 if (name, quantity) == ("box", CPU) else 0.0),
                    0.0,
                )
                for quantity, usual in CALM.items()
            }
    return samples, conditions


def look(
    samples: list[Sample], conditions: dict[str, Conditions], better: str | None = "lower"
) -> Sampled:
    return find_coincidences(samples, center_samples(samples), conditions, better)  # type: ignore[arg-type]


def test_others_use_of_the_cpu_takes_the_place_of_the_use_by_all() -> None:
    """A run that spins uses more CPU when it is slow: of all processes that says nothing."""
    samples, conditions = make_runs(to_and_fro, {CPU: 65.0}, seed=3)
    assert names(look(samples, conditions)) == [CPU]
    draw = random.Random(3)
    calm = {run: {**own, OTHERS: draw.uniform(0, 4)} for run, own in conditions.items()}
    sampled = look(samples, calm)
    assert names(sampled) == []
    assert sampled.tested[0] == "CPU use of the node by others than the job"
    assert len(sampled.tested) == len(CALM)
    busy = {run: {**own, OTHERS: max(own[CPU] - 15, 0.0)} for run, own in conditions.items()}
    assert names(look(samples, busy)) == [OTHERS]
    (run, *_) = busy
    busy[run] = conditions[run]
    assert names(look(samples, busy)) == [CPU], "of one run that of others is not known"


def names(sampled: Sampled) -> list[str]:
    return [each.quantity.name for each in sampled.coincidences]


@pytest.mark.parametrize("better", ["lower", "higher"])
@pytest.mark.parametrize(
    ("quantity", "added"),
    [
        (CPU, 65.0),
        (CLOCK, -0.6e9),
        (SLOWDOWN, 0.7),
        (HEAT, 25.0),
        (MEMORY, 30.0 * 2**30),
        (SWAPPED, 1e5),
    ],
)
def test_a_planted_cause_is_found_and_no_other(quantity: str, added: float, better: str) -> None:
    found = [
        names(look(*make_runs(to_and_fro, {quantity: added}, seed=seed, better=better), better))
        for seed in range(20)
    ]
    assert sum(each == [quantity] for each in found) >= 19


def test_the_sentence_names_means_of_slow_blocks_and_of_the_others() -> None:
    samples, conditions = make_runs(to_and_fro, {CPU: 65.0, SWAPPED: 1e5})
    sampled = look(samples, conditions)
    text = describe_coincidences(sampled, is_one_change=False)
    assert set(names(sampled)) == {CPU, SWAPPED}
    assert text.startswith("In the slowest third of the blocks other means were sampled: ")
    assert "by all its processes and those of the run (" in text
    assert "fewer than 1 of 100 experiments; it proves no cause." in text


def test_chance_seldom_passes_for_a_cause() -> None:
    """Six quantities that have nothing to do with what varied: at most 1 of 100."""
    wide = {CPU: 60.0, CLOCK: -0.5e9, SLOWDOWN: 0.6, HEAT: 20.0, MEMORY: 3e10, SWAPPED: 1e5}
    alarms = 0
    for seed in range(300):
        samples, _ = make_runs(to_and_fro, {}, seed=seed)
        conditions: dict[str, dict[str, float]] = {}
        for place, quantity in enumerate(wide):  # each goes to and fro by itself
            _, own = make_runs(to_and_fro, wide, seed=10_000 + 10 * seed + place)
            for run, known in own.items():
                conditions.setdefault(run, {})[quantity] = known[quantity]
        alarms += bool(look(samples, conditions).coincidences)
    assert alarms <= 7  # 3 are expected; more than 7 would come in 1 of 100 series


def test_an_environment_that_uses_more_is_no_cause() -> None:
    """Its own load is the same in all blocks, and slower it is in all of them as well."""
    samples, conditions = make_runs(to_and_fro, {}, cost=0.0, noise=0.15)
    assert names(look(samples, conditions)) == []


def test_the_other_direction_is_no_cause() -> None:
    samples, conditions = make_runs(to_and_fro, {CPU: -12.0, CLOCK: 0.5e9, HEAT: -20.0})
    assert names(look(samples, conditions)) == []


def test_what_hardly_differs_is_not_told_however_well_it_goes_along() -> None:
    samples, conditions = make_runs(to_and_fro, {HEAT: 4.0}, blocks=40)
    for known in conditions.values():
        known[HEAT] = round(known[HEAT], 3)  # type: ignore[index]
    assert names(look(samples, conditions)) == []


def test_two_drifts_are_one_coincidence_and_the_sentence_says_so() -> None:
    samples, conditions = make_runs(drifting, {HEAT: 25.0})
    sampled = look(samples, conditions)
    assert names(sampled) == [HEAT]
    unsteady = find_unsteadiness(samples, "bare")
    assert unsteady
    assert unsteady.change
    text = describe_unsteadiness(unsteady, "bare", TIME, sampled)
    assert "GPU temperatures (8" in text
    assert "a single coincidence and no proof of a cause" in text
    assert "1 of 100" not in text


def test_few_blocks_or_runs_without_samples_say_nothing() -> None:
    samples, conditions = make_runs(to_and_fro, {CPU: 65.0}, blocks=7)
    assert look(samples, conditions).tested == ()
    samples, conditions = make_runs(to_and_fro, {CPU: 65.0})
    del conditions["bare3"]
    assert look(samples, conditions).tested == ()
    assert describe_coincidences(look(samples, {}), is_one_change=False) == ""
    assert look(*make_runs(to_and_fro, {CPU: 65.0}), None).tested == ()


def test_odd_samples_leave_their_quantity_out() -> None:
    samples, conditions = make_runs(to_and_fro, {CPU: 65.0, HEAT: 25.0})
    conditions["bare3"] = {**conditions["bare3"], HEAT: math.nan}
    assert names(look(samples, conditions)) == [CPU]


def test_where_nothing_goes_along_it_says_what_was_looked_at() -> None:
    samples, conditions = make_runs(to_and_fro, {})
    text = describe_coincidences(look(samples, conditions), is_one_change=False)
    assert text.startswith("Nothing that was sampled on the node goes along with it clearly: CPU")
    assert "GPU clocks" in text
