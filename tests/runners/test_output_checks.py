"""The patterns of success and failure, by which a program's own words fail a run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.directories import END
from runners.workloads import WORKLOADS, ParameterError, SanityError
from runners.workloads.output_checks import check_output
from runners.workloads.patterns import normalize_lines
from runners.workloads.reading import OUTPUT

COMMAND = WORKLOADS["command"]


def cleaned(**given: Any) -> dict[str, Any]:
    return dict(COMMAND.clean({"argv": ["program"], "read": "nothing", **given}))


def test_a_failure_pattern_names_the_line_that_it_matches() -> None:
    parameters = cleaned(failure_pattern="^FAILED|[1-9] errors")
    check_output({OUTPUT: b"fine\n0 errors\nnot FAILED\n"}, parameters)
    with pytest.raises(SanityError, match=r"line 2 of output.txt matches .*: there are 3 errors$"):
        check_output({OUTPUT: b"fine\r\nthere are 3 errors\r\nend"}, parameters)


def test_a_success_pattern_has_to_match_and_the_end_is_quoted() -> None:
    parameters = cleaned(success_pattern=r"^\d+ tests? passed$")
    check_output({OUTPUT: b"start\n12 tests passed\n"}, parameters)
    for content in (b"", b"start\nnothing passed\n", b"\xff\xfe\n"):
        with pytest.raises(SanityError, match=r"the success pattern .* matches nothing"):
            check_output({OUTPUT: content}, parameters)
    with pytest.raises(SanityError, match="It ends: start / nothing passed"):
        check_output({OUTPUT: b"start\nnothing passed\n"}, parameters)
    with pytest.raises(SanityError, match="There is nothing in it"):
        check_output({}, parameters)


def test_the_file_to_read_is_searched_too_and_the_end_of_one_that_is_too_large() -> None:
    parameters = cleaned(
        read="json",
        file="out.json",
        metrics=[{"name": "speed"}],
        success_pattern="^done",
        failure_pattern='"error": *[1-9]',
    )
    check_output({OUTPUT: b"done\n", "out.json": b'{"error": 0}'}, parameters)
    with pytest.raises(SanityError, match=r"line 1 of out\.json matches"):
        check_output({OUTPUT: b"done\n", "out.json": b'{"error": 28}'}, parameters)
    check_output({OUTPUT + END: b"...\ndone\n"}, parameters)
    with pytest.raises(SanityError, match=r"line 2 of out\.json matches"):
        check_output({OUTPUT: b"done", "out.json" + END: b'\n"error": 5'}, parameters)


def test_plans_from_before_have_no_such_patterns() -> None:
    parameters = cleaned()
    del parameters["success_pattern"], parameters["failure_pattern"]
    check_output({OUTPUT: b"FAILED"}, parameters)


@pytest.mark.parametrize("pattern", ["(", "a++", r"(?=x)", r"(a)\1", "x" * 501, "a\nb"])
@pytest.mark.parametrize("name", ["success_pattern", "failure_pattern"])
def test_a_pattern_that_cannot_be_used_is_refused(name: str, pattern: str) -> None:
    with pytest.raises(ParameterError) as refused:
        cleaned(**{name: pattern})
    assert set(refused.value.messages) == {name}


def test_groups_are_allowed_where_no_number_is_read() -> None:
    check_output({OUTPUT: b"ab"}, cleaned(success_pattern="(a)(b)", failure_pattern="(c)|(d)"))


@given(st.binary(max_size=300), st.sampled_from(["FAILED", "ok|fine", r"\d", "^$", "x*"]))
def test_exactly_one_of_both_holds_of_any_output(content: bytes, pattern: str) -> None:
    """Whatever is printed, a pattern that fails a run as one kind passes it as the other."""
    passes = []
    for name in ("success_pattern", "failure_pattern"):
        try:
            check_output({OUTPUT: content}, cleaned(**{name: pattern}))
            passes.append(True)
        except SanityError:
            passes.append(False)
    assert passes[0] is not passes[1], normalize_lines(content)
