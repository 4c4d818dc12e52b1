"""Losses that are the same to the last bit: a finding of its own."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.statistics.training.outcomes import Ending
from experiments.statistics.training.reproducibility import (
    Reproducibility,
    compare_bitwise,
    describe_reproducibility,
    find_first_difference,
)

TWO = ["bare", "box"]


def ending(name, seed, digest, run=""):
    return Ending(run or f"{name}-{seed}-{digest}", name, f"seed {seed}", 0.5, digest=digest)


def findings_of(*endings, **more):
    return {
        (row.environment, row.other): row
        for row in compare_bitwise(endings, baseline="bare", environments=TWO, **more)
    }


def test_pairs_have_one_seed_and_are_counted_within_and_between_environments():
    findings = findings_of(
        ending("bare", 1, "x"),
        ending("bare", 1, "x"),
        ending("bare", 1, "z"),
        ending("bare", 2, "y"),
        ending("box", 1, "x"),
        ending("box", 2, "w"),
        ending("box", 3, "y"),
    )
    assert set(findings) == {("bare", "bare"), ("box", "box"), ("box", "bare")}
    own, box, between = (
        findings[key] for key in (("bare", "bare"), ("box", "box"), ("box", "bare"))
    )
    assert (own.pairs, own.identical) == (2, 1)
    assert (box.pairs, box.identical) == (0, 0)
    assert (between.pairs, between.identical) == (2, 1)
    assert describe_reproducibility(own) == (
        "with itself: identical to the last bit in 1 of 2 pairs."
    )
    assert describe_reproducibility(box) == (
        "with itself: not known, because no two runs of it have the same seed."
    )


def test_sentences_say_how_many_and_from_which_step_on():
    four = Reproducibility(environment="box", other="bare", pairs=4, identical=4)
    assert describe_reproducibility(four) == (
        "with bare: identical to the last bit in 4 of 4 pairs."
    )
    part = Reproducibility(environment="box", other="bare", pairs=4, identical=3, first_step=17)
    assert describe_reproducibility(part) == (
        "with bare: identical to the last bit in 3 of 4 pairs; differs from step 17 on."
    )
    none = Reproducibility(environment="box", other="bare", pairs=4, identical=0, first_step=1700)
    assert describe_reproducibility(none) == (
        "with bare: identical to the last bit in 0 of 4 pairs; differs from step 1,700 on at the "
        "earliest."
    )
    for row in (four, part, none):
        assert "equivalent" not in describe_reproducibility(row).lower()


def test_a_baseline_that_does_not_repeat_itself_tells_nothing_of_an_environment():
    findings = findings_of(
        ending("bare", 1, "x"), ending("bare", 1, "z"), ending("box", 1, "y"), ending("box", 1, "y")
    )
    assert describe_reproducibility(findings["box", "bare"]) == (
        "with bare: identical to the last bit in 0 of 2 pairs. bare does not repeat itself either, "
        "so that is no effect of the environment."
    )
    assert describe_reproducibility(findings["box", "box"]) == (
        "with itself: identical to the last bit in 1 of 1 pair."
    )


def test_unknown_seeds_and_unread_losses_pair_nothing():
    findings = findings_of(ending("bare", 1, "x"), ending("box", 1, "x"), seeds_known=False)
    assert findings["box", "bare"].pairs == 0
    assert "because the seeds are not" in describe_reproducibility(findings["box", "bare"])
    findings = findings_of(ending("bare", 1, ""), ending("box", 1, ""))
    assert findings["box", "bare"].pairs == 0


@pytest.mark.parametrize(
    ("values", "others", "index"),
    [
        ([2.0, 1.0, 0.5], [2.0, 1.0, 0.5], None),
        ([2.0, 1.0, 0.5], [2.0, math.nextafter(1.0, 2), 0.5], 1),
        ([2.0, 1.0], [2.0, 1.0, 0.5], 2),
        ([0.0], [-0.0], None),
        ([1.0, math.nan], [1.0, math.nan], None),
        ([1.0, math.nan], [1.0, 2.0], 1),
        ([], [], None),
    ],
)
def test_the_first_value_that_differs_by_a_bit(values, others, index):
    assert find_first_difference(values, others) == index
    assert find_first_difference(others, values) == index


@given(st.lists(st.floats(allow_nan=False), max_size=30), st.data())
def test_a_changed_value_is_found(values, data):
    assert find_first_difference(values, list(values)) is None
    if values:
        place = data.draw(st.integers(0, len(values) - 1))
        changed = list(values)
        changed[place] = math.nextafter(values[place], 0.0 if values[place] else 1.0)
        assert find_first_difference(values, changed) == place
