"""Rates that are means of all steps so far: the last one, and what lies between them."""

from __future__ import annotations

from typing import Any

import pytest

from runners.workloads import WORKLOADS, ParameterError, SanityError
from runners.workloads.reading import OUTPUT, READERS
from tests.tf_cnn_logs import cumulated, output

FIND = r"^(?P<step>\d+)\s+images/sec: ([\d.]+)"


def parameters(find: str = FIND, take: str = "running_rate") -> dict[str, Any]:
    row = {"name": "rate", "unit": "images/s", "better": "higher", "find": find, "take": take}
    given = {"argv": ["x"], "read": "patterns", "metrics": [row]}
    return WORKLOADS["command"].clean(given)


def read(log: str, **given: str) -> Any:
    return READERS["patterns"]({OUTPUT: log.encode()}, parameters(**given))


def test_the_last_is_the_rate_of_all_steps_and_between_them_is_what_happened() -> None:
    steps, times = (1, 10, 20, 30), (5.0, 0.5, 0.25, 1.0)
    result = read(output(rates=cumulated(steps, times, 4096), steps=steps, batch=4096))
    total = sum(gap * time for gap, time in zip((1, 9, 10, 10), times, strict=True))
    assert result.measurements["rate"] == (pytest.approx(30 * 4096 / total, abs=0.05), "images/s")
    unit, rates = result.series["rate"]
    assert unit == "images/s"
    expected = [10 * 4096 / (5.0 + 9 * 0.5), 4096 / 0.25, 4096 / 1.0]
    assert rates == pytest.approx(expected, rel=0.01)
    assert result.steps == {"rate": [10, 20, 30]}


def test_what_rounding_would_move_is_not_drawn() -> None:
    result = read(output(rates=(1.2, 1.3, 1.3, 1.2)))
    assert result.measurements["rate"] == (1.2, "images/s")
    assert (result.series, result.steps) == ({}, {})


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (output() + output(), "rate: step 1 comes after step 30"),
        (output(rates=(128.0, 0.0, 1.0, 1.0)), "rate: 0 at step 10 is no rate"),
        (output(rates=(10.0, 900.0, 900.0, 900.0)), "rate: the steps up to 10 would have taken no"),
        ("0 images/sec: 5\n", "rate: step 0 comes after step 0"),
        ("9999999999 images/sec: 5\n", "rate: a step is '9999999999'"),
        ("1 images/sec: 0e99999\n", "of which the pattern reads 0"),
    ],
)
def test_what_are_no_running_means_of_one_run_is_refused(log: str, message: str) -> None:
    with pytest.raises(SanityError, match=message):
        read(log)


@pytest.mark.parametrize("find", [r"^\d+\s+images/sec: ([\d.]+)", r"(?P<step>\d+) (?P<step>\d+)"])
def test_it_needs_the_step_beside_the_number(find: str) -> None:
    with pytest.raises(ParameterError, match="step"):
        parameters(find=find)


def test_a_group_of_steps_changes_nothing_of_what_else_is_taken() -> None:
    assert read(output(), take="last").measurements["rate"] == (128.0, "images/s")
    assert read(output(), take="series").series["rate"][1] == [128.0, 128.1, 128.0, 128.0]
