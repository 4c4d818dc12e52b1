"""Patterns of users on logs with numbers that they pass over or cut off."""

from __future__ import annotations

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from runners.workloads import SanityError, findings
from runners.workloads.findings import find_hits_and_numbers
from runners.workloads.missed_numbers import find_missed, find_number_span
from runners.workloads.patterns import PatternError, check_pattern

SPEED = r"^speed: ([\d.]+)"
PIECES = ("(", ")", "[", "]", "^", "\\", ":", "?", "|", "*", "{1}", "a", "-", "\n", r"\d", "(?:",
          "(?P<n>", "(?P<step>", "[:", ":]", "[:alpha:]", r"\Q", r"\E", "(?i)")  # fmt: skip


def find_numbers(text: str, pattern: str, name: str) -> list[float]:
    return [number for _, number in find_hits_and_numbers(text, pattern, name)]


@pytest.mark.parametrize("value", ["nan", "NaN", "-nan", "inf", "-inf", "Infinity"])
@pytest.mark.parametrize("find", [SPEED, r"speed:\s*(\d+\.\d+)", r"speed: (?P<it>[\d.]+)(?: s)?$"])
def test_a_number_that_is_none_is_not_passed_over(find: str, value: str) -> None:
    log = f"speed: 5.0\nspeed: {value}\nspeed: 6.0\n"
    with pytest.raises(SanityError) as refused:
        find_numbers(log, find, "speed")
    assert str(refused.value) == (
        f"speed: the pattern passes over line 2, whose number is {value}, which is not a finite "
        "number"
    )


@pytest.mark.parametrize(
    ("find", "line", "message"),
    [
        (SPEED, "speed: -5.0", "passes over line 2, whose number is -5.0: let its ( )"),
        (r"speed:\D*([\d.]+)", "speed: -5.0", "match 2 is -5.0, of which the pattern reads 5.0"),
        (SPEED, "speed: 1.2e+03", "match 2 is 1.2e+03, of which the pattern reads 1.2 alone"),
        (SPEED, "speed: 5e-05 s", "match 2 is 5e-05, of which the pattern reads 5 alone"),
    ],
)
def test_a_sign_or_an_exponent_is_not_lost(find: str, line: str, message: str) -> None:
    with pytest.raises(SanityError) as refused:
        find_numbers(f"speed: 4.0\n{line}\n", find, "speed")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("find", "log", "values"),
    [
        (SPEED, "speed: 5.0\nspeed: unknown\nspeed: nano\nspeeds: nan\n", [5.0]),
        (SPEED, "speed: 5.0e\nspeed: 2 e-5\n", [5.0, 2.0]),
        (r"(\d+\.\d+)", "nan at first, inf later: 1.5\n", [1.5]),  # nothing says where it stands
        (r"layer -(\d+)", "layer -3", [3.0]),
        (r"-(\d+)$", "2026-11-22", [22.0]),
        (r"(\d+) ms", "took 3-5 ms", [5.0]),
        (r"speed: (\S+)", "speed: 1.5e3\nspeed: -2", [1500.0, -2.0]),
    ],
)
def test_what_is_read_whole_is_read_as_before(find: str, log: str, values: list[float]) -> None:
    assert find_numbers(log, find, "speed") == values


def test_a_number_beyond_all_measures_is_refused() -> None:
    with pytest.raises(SanityError, match=r"match 2 is 1.7e\+308, which is beyond anything"):
        find_numbers("speed: 5\nspeed: 1.7e308\n", r"speed: (\S+)", "speed")


def test_a_pattern_that_finds_more_than_memory_holds_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(findings, "MOST_NUMBERS", 3)
    assert find_numbers("1\n2\n3\n", r"(\d)", "speed") == [1.0, 2.0, 3.0]
    with pytest.raises(SanityError, match="speed is matched more than 3 times: let the pattern"):
        find_numbers("1\n2\n3\n4\n", r"(\d)", "speed")


def test_a_long_log_is_looked_through_once() -> None:
    log = "speed: 5.0\n" * 50_000 + "speed: nan\n"
    assert [log.count("\n", 0, hit.start) for hit in find_missed(SPEED, log)] == [50_000]


SEVERAL = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)


@given(SEVERAL, SEVERAL, SEVERAL)
def test_the_number_of_whatever_pattern_is_known(before: str, number: str, after: str) -> None:
    pattern = f"{before}({number}){after}"
    try:
        check_pattern(pattern)
    except PatternError:
        return
    begin, end = find_number_span(pattern)
    options = re2.Options()
    options.log_errors = False
    groups = re2.compile(pattern, options).groups
    emptied = re2.compile(pattern[:begin] + pattern[end:], options)
    assert groups - emptied.groups == re2.compile(pattern[begin:end], options).groups
    list(find_missed(pattern, "a nan 5\n-1.0\n"))
