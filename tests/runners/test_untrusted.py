"""Whatever a cluster sends, what is read of it can be stored and shown."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runners.errors import Refused, TryAgain
from runners.job_failures import name_failure
from runners.journals import parse_journal
from runners.records import read_record
from runners.schedulers import SCHEDULERS, JobEnding
from runners.shapes import BUILD, INSIDE, LINE, SOFTWARE, SURVEY
from runners.transports.base import Completed
from runners.untrusted import (
    DEEPEST,
    Anything,
    Damaged,
    Number,
    Rows,
    Table,
    Text,
    Whole,
    clean_text,
    parse_document,
    validate,
)
from runners.workloads import WORKLOADS, SanityError

ODD_NUMBERS = st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -1, 10**400, True, None])
ODD_TEXTS = st.sampled_from(["\0", "caf\udce9", "\ud800", "x" * 300, ""])
SCALARS = st.one_of(ODD_NUMBERS, ODD_TEXTS, st.integers(), st.floats(), st.text(max_size=20))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=9), inner, max_size=4)
    ),
    max_leaves=12,
)


def tables(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Tables with any of the names that somebody reads, and any value."""
    return st.dictionaries(st.sampled_from(names) | st.text(max_size=9), VALUES, max_size=6)


def documents(values: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    """What stands in a file that is to hold such a document: that, a part of it, or anything."""
    whole = values.map(lambda value: json.dumps(value).encode())
    deep = st.integers(1, 3000).map(lambda depth: b"[" * depth + b"]" * depth)
    return st.one_of(whole, whole.map(lambda text: text[:-1]), deep, st.binary(max_size=40))


EVENTS = st.sampled_from(["run began", "run ended", "step", "job started", "job ended"])
LINES = st.builds(
    lambda event, more: {**more, **event},
    st.fixed_dictionaries({}, optional={"event": EVENTS | SCALARS, "run": st.just("a") | SCALARS}),
    tables("time", "node", "exit_code", "doing", "number", "of", "job"),
)
JOURNALS = st.lists(documents(LINES), max_size=5).map(lambda lines: b"\n".join([*lines, b""]))
INSIDES = documents(tables(*INSIDE.fields))
CODES = st.sampled_from([b"0", b"1", b"x", b"9" * 30, b"\xff", b"-1", "\u0663".encode()])


def assert_storable(value: Any) -> None:
    """Check that PostgreSQL takes it: finite numbers, UTF-8, no NUL, not too deep."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    text.encode()
    assert "\\u0000" not in text.replace("\\\\", ""), "a NUL, not a backslash and its name"


@given(
    journal=JOURNALS,
    inside=INSIDES,
    rank=INSIDES,
    started=st.binary(max_size=120),
    code=CODES,
    name=st.binary(min_size=1, max_size=9).map(lambda text: text.decode(errors="surrogateescape")),
    content=st.binary(max_size=50),
)
@example(b"", b"[" * 100_000, b"{}", b"", b"0", "caf\udce9", b"\0")
def test_any_record_can_be_stored(
    journal: bytes,
    inside: bytes,
    rank: bytes,
    started: bytes,
    code: bytes,
    name: str,
    content: bytes,
) -> None:
    files = {
        "journal.ndjson": journal,
        "started": started,
        "exit_code": code,
        "failure.json": inside,
        f"snapshot/{name}": content,
        f"runs/0-a/{name}": content,
        "runs/0-a/inside.json": inside,
        "runs/0-a/exit_code": code,
        "runs/0-a/failure": content,
        "runs/0-a/output.txt": content,
        "runs/0-a/rank-1/inside.json": rank,
        "runs/0-a/instance-1/inside.json": rank,
        f"runs/{'9' * 5000}-b/command": content,
    }
    record = read_record(files)
    for line in record.journal:
        datetime.fromtimestamp(line["time"], tz=UTC)
        assert isinstance(line["event"], str)
        code_of_line = line.get("exit_code")
        assert code_of_line is None or abs(code_of_line) <= 2**31
        assert len(line.get("node") or "") <= 255
    assert_storable([record.journal, record.snapshot, record.damage, record.output_tail])
    run = record.runs["a"]
    assert_storable([run.snapshot, run.others, run.failure, run.command, run.damage, *run.files])
    assert_storable(name_failure(record, None))


@given(JOURNALS)
def test_a_journal_is_read_to_its_last_whole_line(content: bytes) -> None:
    lines, consumed = parse_journal(content)
    assert consumed == content.rfind(b"\n") + 1
    assert len(lines) <= content.count(b"\n") + content.count(b"\r")


def test_a_journal_without_lines_is_not_read_for_ever() -> None:
    assert parse_journal(b"[" * 100_000) == ([], 100_000)


@pytest.mark.parametrize("shape", [INSIDE, LINE, SURVEY, BUILD, SOFTWARE, Table()])
@given(data=st.data())
def test_a_document_is_clean_or_damaged(shape: Table, data: st.DataObject) -> None:
    names = [*shape.fields, "more"]
    content = data.draw(documents(tables(*names)))
    with suppress(Damaged):
        read = parse_document(content, shape)
        assert_storable(read)
        assert validate(read, shape) == read, "what is clean stays as it is"


@pytest.mark.parametrize(
    ("shape", "value", "message"),
    [
        (Table({"a": Text()}), {"a": 1}, "a is a number, not a text"),
        (Table({"a": Rows(Table())}), {"a": [{}, 1]}, r"a\[1\] is a number, not a table"),
        (Table({"a": Whole()}), {"a": True}, "a is yes or no, not a whole number"),
        (Table({"a": Whole(0, 9)}), {"a": 10}, "a is 10, not 0 to 9"),
        (Table({"a": Number()}), {"a": math.nan}, "a is nan, not a number"),
        (Table({"a": Text(3)}), {"a": "four"}, "a has 4 characters, not at most 3"),
        (Table({"a": Text(pattern="[0-9]+")}), {"a": "x"}, "another form"),
        (Table({"a": Table({"b": Text()})}), {"a": {"b": []}}, "a.b is a list, not a text"),
        (Table(needed=("a", "b")), {"a": None}, "it has no a, b"),
        (Anything(), 10**30, "a number of more than 18 digits"),
    ],
)
def test_what_is_wrong_is_named(shape: Any, value: Any, message: str) -> None:
    with pytest.raises(Damaged, match=message):
        validate(value, shape)


def test_depth_is_bounded() -> None:
    def nested(depth: int) -> bytes:
        return b'{"a":' * depth + b"1" + b"}" * depth

    assert parse_document(nested(DEEPEST))
    for depth in (DEEPEST + 1, 900, 100_000):
        with pytest.raises(Damaged, match="deep"):
            parse_document(nested(depth))


def test_texts_are_cleaned_not_refused() -> None:
    assert clean_text(b"caf\xe9 \0") == "caf\ufffd \ufffd"
    assert clean_text(b"caf\xe9".decode(errors="surrogateescape")) == "caf\\xe9"
    assert clean_text("\ud800") == "\ufffd"
    assert parse_document(rb'{"caf\udce9": "a\u0000"}') == {"caf\\xe9": "a\ufffd"}


@pytest.mark.parametrize("kind", SCHEDULERS)
@pytest.mark.parametrize("odd", ["", "-9", "--signal=9", "1 2", "9" * 101, "1;rm", "rD", "\u0663"])
def test_what_no_scheduler_calls_a_job_is_no_id(kind: str, odd: str) -> None:
    assert not SCHEDULERS[kind]().is_id(odd)


WORDS = (
    "12 | RUNNING PENDING - 1:0 None qw r exit_status failed ru_wallclock ===== gpu: 1-2 running"
)
PIECES = st.sampled_from(
    [*WORDS.split(), "9" * 5000, "\n", " ", "\0", "job_number: ", "asked for 12"]
)
ANSWERS = st.builds(
    Completed,
    st.sampled_from([0, 1, 127]),
    st.one_of(st.binary(max_size=60), st.lists(PIECES).map(lambda parts: "".join(parts).encode())),
    st.binary(max_size=60),
)


@pytest.mark.parametrize("kind", SCHEDULERS)
@given(done=ANSWERS)
def test_a_scheduler_answers_no_answers_not_or_is_read(kind: str, done: Completed) -> None:
    scheduler = SCHEDULERS[kind]()
    for parse in (
        scheduler.parse_submit,
        scheduler.parse_find,
        scheduler.parse_status,
        scheduler.parse_cancel,
        scheduler.parse_accounting,
        scheduler.parse_partitions,
        scheduler.parse_trial,
    ):
        try:
            answer = parse(done)
        except (Refused, TryAgain) as error:
            assert_storable(str(error))
        else:
            assert_storable(plain(answer))
            if parse in (scheduler.parse_submit, scheduler.parse_find) and answer is not None:
                assert scheduler.is_id(str(answer))


def plain(answer: Any) -> Any:
    """An answer as tables and lists."""
    if isinstance(answer, Mapping):
        return {key: plain(value) for key, value in answer.items()}
    if isinstance(answer, Sequence) and not isinstance(answer, str):
        return [plain(value) for value in answer]
    return answer if answer is None or isinstance(answer, str) else str(answer)


@pytest.mark.parametrize("kind", WORKLOADS)
@given(
    report=documents(tables("schema", "metrics", "series", "phases", "facts", "metric", "step")),
    spec=documents(tables("instances")),
    name=st.sampled_from(["result.json", "tare-result.json", "tare-result.jsonl", "output.txt"]),
)
def test_a_report_is_numbers_or_not_sane(kind: str, report: bytes, spec: bytes, name: str) -> None:
    workload = WORKLOADS[kind]
    files = {name: report, "spec.json": spec}
    row = {"name": "step_time", "find": "", "unit": "s", "take": "mean", "better": "lower"}
    parameters: Any = {"read": "recorder", "metrics": [row], "burn_in": 0, "file": ""}
    so_far = workload.read_partial(files, parameters)
    assert_storable([so_far.series, so_far.steps])
    try:
        result = workload.read(files, parameters)
    except SanityError:
        return
    assert_storable([result.measurements, result.series, result.phases])


def test_a_last_word_has_a_place_in_every_message() -> None:
    word = JobEnding("FAILED", "1:0", "", "node1", "failed")
    assert name_failure(read_record({}), word)[0] == "failed"
