"""Results are read with suspicion: a number that cannot be used never gets through."""

import copy
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.errors import Refused
from runners.untrusted import MOST_PARTS, Damaged, has_many_parts, parse_document
from runners.workloads import WORKLOADS, Result, SanityError
from runners.workloads.findings import parse_documents
from runners.workloads.reports import read_report
from tests.runners.payload_runs import left

CNN = WORKLOADS["cnn"]
GOOD: dict[str, Any] = {
    "schema": 1,
    "metrics": {
        "step_time": {"value": 0.02, "unit": "s"},
        "loss": {"value": 0, "unit": "1"},
    },
    "series": {"step_time": {"unit": "s", "values": [0.03, 0.02]}},
    "phases": {"start": 0.0, "import": 1.5},
    "facts": {"burn_in": 1},
}


def test_a_good_result_is_read_as_it_is() -> None:
    assert CNN.read(left(json.dumps(GOOD).encode()), {}) == Result(
        measurements={"step_time": (0.02, "s"), "loss": (0.0, "1")},
        series={"step_time": ("s", [0.03, 0.02])},
        phases={"start": 0.0, "import": 1.5},
        facts={"burn_in": 1},
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "the run left no result"),
        (b"", "the result is not JSON"),
        (b'{"schema": 1, "metrics"', "the result is not JSON"),
        (b"\xff\xfe\xfa", "the result is not JSON"),
        (b"[" * 100_000, "the result is not JSON"),
        (b"[1]", "the result is a JSON list, not an object"),
        (b'{"schema": NaN}', "the result holds NaN, which is not a number"),
        (b'{"schema": -Infinity}', "the result holds -Infinity, which is not a number"),
        (b"{" * (MOST_PARTS + 1), f"the result holds more than {MOST_PARTS:,} lists, tables"),
        (b'{"schema": true}', "the result has schema True; schema 1 is known"),
        (b'{"schema": 2}', "the result has schema 2; schema 1 is known"),
    ],
)
def test_what_is_no_result_is_said_in_words(content: bytes | None, message: str) -> None:
    with pytest.raises(SanityError) as refusal:
        CNN.read(left(content), {})
    assert str(refusal.value).startswith(message)
    assert isinstance(refusal.value, Refused)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("metrics", None, "the result has no table of metrics"),
        ("series", [], "the result has no table of series"),
        ("facts", 1, "the result has no table of facts"),
        ("metrics.step_time", 0.02, "'step_time' in metrics is 0.02, not a value with a unit"),
        ("metrics.step_time.value", "0.02", "step_time is '0.02', which is not a number"),
        ("metrics.step_time.value", True, "step_time is True, which is not a number"),
        ("metrics.step_time.value", 10**400, "step_time is not a finite number"),
        ("metrics.step_time.value", 1.7e308, "step_time is 1.7e+308, which is beyond anything"),
        ("series.step_time.values", [1, -2e100], "step_time at step 1 is -2e+100, which is beyond"),
        ("phases.import", 1e101, "phase 'import' is 1e+101, which is beyond anything"),
        ("metrics.step_time.value", 0, "step_time is 0 s; it must be above zero"),
        ("metrics.step_time.value", -1.5, "step_time is -1.5 s; it must be above zero"),
        ("metrics.step_time.unit", "ms", "step_time is in 'ms', and 's' was declared"),
        ("metrics.step_time.unit", "", "step_time has no unit"),
        (
            "metrics.gflops",
            {"value": 1, "unit": "Gflop/s"},
            "the metric 'gflops' is not one that this workload declares",
        ),
        ("series.step_time.values", 1, "the series 'step_time' is not a list of numbers"),
        ("series.step_time.values", [1, None], "step_time at step 1 is None, which is not"),
        ("phases.import", "1", "phase 'import' is '1', which is not a number"),
    ],
)
def test_what_is_wrong_with_a_result_is_said_in_words(path: str, value: Any, message: str) -> None:
    document = copy.deepcopy(GOOD)
    *parents, name = path.split(".")
    table = document
    for parent in parents:
        table = table[parent]
    table[name] = value
    with pytest.raises(SanityError) as refusal:
        CNN.read(left(json.dumps(document).encode()), {})
    assert str(refusal.value).startswith(message)


def test_a_result_without_the_compared_metric_is_none() -> None:
    document = {**GOOD, "metrics": {"loss": {"value": 1, "unit": "1"}}}
    with pytest.raises(SanityError, match="the result has no step_time, the metric that is"):
        CNN.read(left(json.dumps(document).encode()), {})


def test_a_number_too_large_for_a_float_is_refused() -> None:
    with pytest.raises(SanityError, match="step_time is not a finite number"):
        CNN.read(left(json.dumps(GOOD).replace("0.02", "1e999", 1).encode()), {})


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
documents = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["schema", "metrics", "step_time", "value", "unit", "values"]), inner
        )
    ),
)


@given(st.sampled_from([*GOOD, "metrics.step_time", "series.step_time"]), documents)
def test_whatever_a_program_writes_every_number_read_can_be_computed_with(
    path: str, value: Any
) -> None:
    document = copy.deepcopy(GOOD)
    *parents, name = path.split(".")
    (document[parents[0]] if parents else document)[name] = value
    try:
        result = CNN.read(left(json.dumps(document).encode()), {})
    except SanityError:
        return
    assert result.measurements["step_time"][0] > 0
    numbers = [value for value, _ in result.measurements.values()]
    numbers += [value for _, values in result.series.values() for value in values]
    numbers += result.phases.values()
    assert math.isfinite(math.fsum(number**2 for number in numbers))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with pytest.raises(SanityError):
        CNN.read(left(content), {})


@pytest.mark.parametrize("part", ["{}", "[]", '""'])
def test_no_document_takes_many_times_its_size_in_memory(part: str) -> None:
    many = f"[{','.join([part] * MOST_PARTS)}]"
    assert has_many_parts(many)
    assert has_many_parts(many.encode())
    with pytest.raises(SanityError, match="more than 1,000,000 lists, tables and texts"):
        CNN.read(left(f'{{"schema": 1, "facts": {many}}}'.encode()), {})
    for name in ("report", "reportl"):
        lines = {name: f'{{"series": "a", "values": {many}}}\n'.encode()}
        with pytest.raises(SanityError, match="more than 1,000,000 lists, tables and texts"):
            read_report(lines, "report", {})
    with pytest.raises(Damaged, match="more than 1,000,000 lists, tables and texts"):
        parse_document(many)
    with pytest.raises(SanityError, match="more than 10,000,000 lists, tables and quotes"):
        parse_documents(f"[{','.join([many] * 11)}]")
    assert not has_many_parts(f"[{'1,' * MOST_PARTS}1]"), "a million steps are a result"


def test_more_series_than_anybody_means_are_no_result() -> None:
    series = {f"loss {at}": {"unit": "1", "values": [1.0]} for at in range(1001)}
    content = json.dumps({**GOOD, "series": series}).encode()
    with pytest.raises(SanityError, match="1001 series were reported"):
        CNN.read(left(content), {})
    assert CNN.read_partial({"result.json": content}, {}).series == {}
    lines = b"".join(b'{"series": "loss %d", "values": [1]}\n' % at for at in range(1001))
    with pytest.raises(SanityError, match="1001 series were reported"):
        read_report({"tare-result.jsonl": lines}, "tare-result.json", {})
