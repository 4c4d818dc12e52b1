"""Sweeps: typed values and their combinations, without a database."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.workloads import WORKLOADS, Parameter, Workload
from runners.workloads.parameter_sweeps import (
    MOST_VARIANTS,
    SweepError,
    Variant,
    expand_sweep,
    read_axes,
)

CNN = WORKLOADS["cnn"]
COMMAND = WORKLOADS["command"]
sizes = st.lists(st.integers(1, 4096), min_size=1, max_size=10, unique=True)
seeds = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=10, unique=True)


def write(**values: object) -> str:
    """Return a sweep as somebody would type it."""
    return "\n".join(
        f"{name}: {', '.join(map(str, typed))}"  # type: ignore[call-overload]
        for name, typed in values.items()
    )


def answer(text: str) -> tuple[list[Variant], list[str]]:
    """Return the variants of a sweep, or why there are none."""
    try:
        return expand_sweep(text, CNN, {}), []
    except SweepError as error:
        return [], error.messages


@given(sizes, seeds)
def test_every_combination_is_there_once_and_the_last_parameter_is_fastest(
    first: list[int], second: list[int]
) -> None:
    variants = expand_sweep(write(batch_size=first, seed=second), CNN, {"steps": 99})
    pairs = [(row.parameters["batch_size"], row.parameters["seed"]) for row in variants]
    assert pairs == [(one, other) for one in first for other in second]
    assert len({row.key for row in variants}) == len({row.label for row in variants}) == len(pairs)
    assert {row.parameters["steps"] for row in variants} == {99}


@given(sizes)
def test_labels_are_a_sweep_that_makes_the_same_variant(values: list[int]) -> None:
    for variant in expand_sweep(write(batch_size=values), CNN, {}):
        assert expand_sweep(variant.label, CNN, {}) == [variant]


@given(st.lists(st.one_of(st.integers(-(10**400), 10**400), st.floats(allow_nan=False))))
def test_numbers_sort_as_numbers(values: list[float]) -> None:
    def clamp(value: float) -> float:
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf

    ordered = sorted(values, key=lambda value: Variant({"x": value}, {}).order)
    clamped = [clamp(value) for value in ordered]
    assert clamped == sorted(clamped)


@given(st.text(max_size=300))
def test_any_text_is_a_sweep_or_says_why_it_is_none(text: str) -> None:
    variants, problems = answer(text)
    assert bool(variants or problems) == bool(text.strip())
    assert all(len(message) < 500 for message in problems)


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=40))
def test_any_name_of_a_parameter_and_any_value_is_answered(text: str) -> None:
    for typed in (f"{text}: 1", f"batch_size: {text}", f"precision = {text}, {text}"):
        variants, problems = answer(typed)
        assert bool(variants) != bool(problems)


def test_commas_in_quotes_stay_and_arguments_are_read_as_a_shell_reads_them() -> None:
    text = "argv: \"python3 net.py --sizes '1, 2'\", python3 net.py --sizes 3"
    axes = read_axes(text, COMMAND)
    assert axes[0].values == (
        ["python3", "net.py", "--sizes", "1, 2"],
        ["python3", "net.py", "--sizes", "3"],
    )


def test_a_parameter_may_be_named_as_the_form_names_it() -> None:
    assert read_axes("Warm-up: 1, 2", CNN)[0].parameter.name == "burn_in"
    assert read_axes("Batch size = 1", CNN)[0].parameter.name == "batch_size"


def test_files_are_not_varied() -> None:
    with pytest.raises(SweepError, match="files cannot be varied"):
        read_axes("files: a, b", COMMAND)


@pytest.mark.parametrize(
    ("typed", "values"),
    [
        ("32..256 x2", [32, 64, 128, 256]),
        ("32..200 x 2", [32, 64, 128]),
        ("1..4", [1, 2, 3, 4]),
        ("10..30 +10, 64", [10, 20, 30, 64]),
        ("8..8", [8]),
        ("1..1e3 ×10", [1, 10, 100, 1000]),
    ],
)
def test_ranges_are_their_values(typed: str, values: list[int]) -> None:
    assert read_axes(f"batch_size: {typed}", CNN)[0].values == tuple(values)


def test_fractions_of_a_range_are_as_exact_as_they_are_typed() -> None:
    rate = Parameter(name="rate", type="number", default=0.1, minimum=0, maximum=1, help="")

    class Net(Workload):
        kind = "net"
        parameters = (rate,)

    assert read_axes("rate: 0.1..0.5 +0.1", Net)[0].values == (0.1, 0.2, 0.3, 0.4, 0.5)
    assert read_axes("rate: 0.001..1 x10", Net)[0].values == (0.001, 0.01, 0.1, 1.0)
    with pytest.raises(SweepError, match="needs a step"):
        read_axes("rate: 0.1..0.5", Net)
    with pytest.raises(SweepError, match="must be from 0 to 1"):
        read_axes("rate: 0.5..2 +1.1", Net)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("256..32", "Write the smaller number first"),
        ("1..100 x1", "a factor above 1 and a start above 0"),
        ("0..100 x2", "a factor above 1 and a start above 0"),
        ("1..9 +0", "a step above 0"),
        ("1..1000000", "more than 100 values"),
        ("1..1e999 x1.0000001", "more than 100 values"),
        ("1..4, 3", "batch_size has 3 twice"),
        ("1..10 x1.5", "must be a whole number"),
        ("1..x", "must be a whole number"),
    ],
)
def test_ranges_that_make_no_sense_are_refused(typed: str, message: str) -> None:
    with pytest.raises(SweepError, match=message):
        read_axes(f"batch_size: {typed}", CNN)


@given(st.integers(1, 4000), st.integers(0, 99), st.integers(1, 50))
def test_a_range_counts_as_python_does(start: int, many: int, step: int) -> None:
    text = f"seed: {start}..{start + many * step} +{step}"
    assert read_axes(text, CNN)[0].values == tuple(range(start, start + many * step + 1, step))


@pytest.mark.parametrize("typed", ["inf", "-inf", "nan", "1e999", "9" * 5000, "0x10", "٣٢x", ""])
def test_odd_numbers_are_refused_with_a_short_message(typed: str) -> None:
    with pytest.raises(SweepError) as refusal:
        expand_sweep(f"batch_size: {typed}", CNN, {})
    assert all(len(message) < 400 for message in refusal.value.messages)


def test_the_limit_counts_combinations() -> None:
    just = write(batch_size=range(1, 11), seed=range(10))
    assert len(expand_sweep(just, CNN, {})) == MOST_VARIANTS
    with pytest.raises(SweepError, match="10 x 11 values are 110 combinations; at most 100"):
        expand_sweep(write(batch_size=range(1, 11), seed=range(11)), CNN, {})


def test_a_few_problems_stand_for_many() -> None:
    with pytest.raises(SweepError) as refusal:
        expand_sweep(write(batch_size=["x" + str(number) for number in range(90)]), CNN, {})
    assert len(refusal.value.messages) == 6
    assert refusal.value.messages[-1] == "And 85 more like these."
