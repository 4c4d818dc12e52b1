"""Files of tables are written by a process of its own, and none looks whole that broke off."""

from __future__ import annotations

import io
import math
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from dashboard.arrow import writing_process
from dashboard.arrow.arrow_files import Ending
from dashboard.arrow.writing_process import NotWritten, write_table
from experiments.comparisons.typed_tables import (
    Batch,
    CopiedTable,
    Repeated,
    Spread,
    TypedColumn,
    TypedTable,
)
from standalone import children
from tests.dashboard.arrow.written_here import write_here

ENDINGS: tuple[Ending, ...] = ("csv", "parquet", "arrow")
COLUMNS = (TypedColumn("run", about="its name"), TypedColumn("value", "number", "s"))
BROKEN = (pa.ArrowInvalid, OSError, ValueError)


def read(content: bytes, ending: str) -> Any:
    if ending == "parquet":
        return parquet.read_table(io.BytesIO(content))
    if ending == "arrow":
        return pa.ipc.open_stream(content).read_all()
    return pa.Table.from_pandas(pandas.read_csv(io.BytesIO(content)))


def make_long_table(count: int = 1000, rows: int = 1000) -> TypedTable:
    """Return a table of a batch for each of its runs, that is made while it is read."""

    def list_batches() -> Iterator[Batch]:
        for number in range(count):
            yield [Repeated(f"run {number}", rows), np.random.default_rng(number).random(rows)]

    return TypedTable(COLUMNS, list_batches())


def find_programs() -> list[int]:
    """Return the processes that write files for this one; of one that has ended nothing is left."""
    programs = []
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        with suppress(OSError):  # other threads and processes of the tests end meanwhile
            pids = map(int, (task / "children").read_text().split())
            programs += [pid for pid in pids if _is_program(pid)]
    return programs


def _is_program(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return writing_process.PROGRAM.encode() in command


@pytest.fixture
def replace_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Return a function that puts another program in the place of the one that writes files."""

    def replace(source: str) -> None:
        (tmp_path / "odd_program.py").write_text(source)
        monkeypatch.setattr(writing_process, "PROGRAM", "odd_program")
        environment = {**writing_process._make_environment(), "PYTHONPATH": str(tmp_path)}
        monkeypatch.setattr(writing_process, "_make_environment", lambda: environment)

    return replace


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_process_writes_what_the_same_code_writes_here(ending: Ending) -> None:
    content = b"".join(write_table(make_long_table(20), ending))
    assert content == write_here(make_long_table(20), ending)
    table = read(content, ending)
    assert len(table) == 20_000
    if ending != "csv":
        assert table.schema.field("value").metadata == {b"unit": b"s"}
    assert not find_programs()


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_table_without_rows_is_a_file_with_its_columns(ending: Ending) -> None:
    for table in (TypedTable(COLUMNS, [], {"question": "é"}), CopiedTable(COLUMNS, [])):
        content = b"".join(write_table(table, ending))
        file = read(content, ending)
        assert (file.column_names, len(file)) == (["run", "value"], 0)
    empty = write_here(TypedTable(COLUMNS, [[[], []]]), ending)
    assert len(read(empty, ending)) == 0


TIMES = st.datetimes(
    datetime(1, 1, 3),
    datetime(9999, 12, 29),
    timezones=st.sampled_from([UTC, timezone(-timedelta(hours=7))]),
)


@given(
    st.lists(
        st.tuples(
            st.none() | st.text() | st.sampled_from(["\ud800", "\x00", "=1+1", "NaN", ""]),
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.floats() | st.integers(),
            st.none() | TIMES,
            st.none() | st.booleans(),
        ),
        max_size=6,
    )
)
def test_all_values_come_back(rows: list[Any]) -> None:
    """NaN, infinities and missing ones too; what is not UTF-8 is a question mark."""
    kinds: Any = ("text", "whole", "number", "time", "flag")
    columns = [TypedColumn(kind, kind) for kind in kinds]
    batch = [list(column) for column in zip(*rows, strict=True)] or [[]] * 5
    for ending in ("parquet", "arrow"):
        found = read(write_here(TypedTable(columns, [batch]), ending), ending)
        assert found["whole"].to_pylist() == batch[1]
        assert found["time"].to_pylist() == batch[3]
        assert found["flag"].to_pylist() == batch[4]
        assert found["text"].to_pylist() == [
            text and text.encode("utf-8", "replace").decode() for text in batch[0]
        ]
        for value, given_ in zip(found["number"].to_pylist(), batch[2], strict=True):
            if given_ is None or not math.isnan(make_float(given_)):
                assert value == (None if given_ is None else make_float(given_))
            else:
                assert math.isnan(value)


def make_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


@given(st.lists(st.tuples(st.text(max_size=3), st.integers(0, 4)), min_size=1, max_size=5))
def test_spread_values_are_written_like_any_others(shared: list[tuple[str, int]]) -> None:
    texts, counts = zip(*shared, strict=True)
    spread = Spread(texts, counts)
    assert spread[:2] == list(spread)[:2]
    numbers = np.arange(len(spread), dtype=np.int32)
    columns = [TypedColumn("text"), TypedColumn("step", "whole"), TypedColumn("value", "number")]
    tables = [
        TypedTable(columns, [[texts, numbers, values]])
        for texts, values in ((spread, numbers), (list(spread), range(len(spread))))
    ]
    changed = [table.change_texts(lambda text: text + "x") for table in tables]
    for short, long in (tables, changed):
        contents = [read(write_here(table, "arrow"), "arrow") for table in (short, long)]
        assert contents[0].equals(contents[1])


def test_a_reader_that_goes_away_ends_the_process() -> None:
    pieces = write_table(make_long_table(), "arrow")
    next(pieces)
    (program,) = find_programs()
    pieces.close()  # as the web server does then
    assert not Path(f"/proc/{program}").exists()


def test_the_process_ends_with_the_web_server(tmp_path: Path) -> None:
    """Also where that is killed."""
    source = (
        "import sys, django; django.setup(); "
        "from tests.dashboard.arrow.test_writing_process import *; "
        "pieces = write_table(make_long_table(), 'arrow'); next(pieces); "
        "print(find_programs()[0], flush=True); sys.stdin.read()"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "dashboard.settings"}
    server = subprocess.Popen(
        [sys.executable, "-c", source],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    program = os.pidfd_open(int(server.stdout.readline()))  # type: ignore[union-attr]
    server.kill()
    server.communicate()
    ended, _, _ = select.select([program], [], [], 30)
    os.close(program)
    assert ended


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_whose_process_is_killed_is_refused_by_its_readers(
    ending: Ending, caplog: pytest.LogCaptureFixture
) -> None:
    pieces = write_table(make_long_table(), ending)
    content = next(pieces)
    os.kill(find_programs()[0], signal.SIGKILL)
    kept: list[bytes] = []
    with pytest.raises(NotWritten):
        kept.extend(pieces)
    assert "Writing a file ended with -9" in caplog.text
    with pytest.raises(BROKEN):
        read(content + b"".join(kept), ending)


@pytest.mark.parametrize(
    "source",
    ["import signal; signal.pause()", "import sys; sys.stdin.buffer.read()"],
    ids=["does not read", "does not answer"],
)
@pytest.mark.parametrize("kind", ["batches", "copied"])
def test_one_that_hangs_keeps_no_thread(
    kind: str,
    source: str,
    replace_program: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    replace_program(source)
    monkeypatch.setattr(writing_process, "SECONDS_OF_SILENCE", 0.2)

    def copy(file: Any) -> None:
        for _ in range(200):
            file.write(b"0,a,1\n" * 10_000)

    table = make_long_table() if kind == "batches" else CopiedTable(COLUMNS, [copy])
    with pytest.raises(NotWritten):
        b"".join(write_table(table, "arrow"))
    assert "It did nothing for 0.2 s." in caplog.text
    assert not find_programs()


def test_one_that_is_stopped_in_the_middle_is_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pieces = write_table(make_long_table(), "arrow")
    next(pieces)
    monkeypatch.setattr(writing_process, "SECONDS_OF_SILENCE", 0.2)
    os.kill(find_programs()[0], signal.SIGSTOP)
    with pytest.raises(NotWritten):
        b"".join(pieces)
    assert "It did nothing" in caplog.text
    assert not find_programs()


def test_an_error_of_the_process_stands_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A whole number of more than 64 bits has no place in such a column."""
    table = TypedTable([TypedColumn("number", "whole")], [[[2**70]]])
    with pytest.raises(NotWritten):
        b"".join(write_table(table, "parquet"))
    assert "OverflowError" in caplog.text
    assert not find_programs()


@pytest.mark.parametrize(
    "source",
    [
        "raise SystemExit(3)",
        "import no_such_package",
        "pass",
        "import sys; sys.stdin.buffer.read(100); print('what is no frame')",
        "import sys; sys.stdout.write('x' * 9); sys.stdin.buffer.read(9)",
    ],
)
def test_a_program_that_answers_nothing_or_nonsense_is_no_file(
    source: str, replace_program: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    replace_program(source)
    with pytest.raises(NotWritten):
        b"".join(write_table(make_long_table(20), "parquet"))
    assert "Writing a file ended with" in caplog.text


def test_one_that_cannot_be_started_is_no_file(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(NotWritten, match="could not start"):
        b"".join(write_table(make_long_table(1), "parquet"))
    assert "No process could be started" in caplog.text


def test_an_error_while_rows_are_read_ends_the_process() -> None:
    def list_batches() -> Iterator[Batch]:
        yield [["a"], [1.0]]
        raise LookupError

    with pytest.raises(LookupError):
        b"".join(write_table(TypedTable(COLUMNS, list_batches()), "parquet"))
    assert not find_programs()


def test_it_knows_no_secret() -> None:
    made = writing_process._make_environment()
    assert not set(made) & {"SECRET_KEY", "DATABASE_URL", "CREDENTIAL_KEYS", "REDIS_URL"}
    pieces = write_table(make_long_table(), "arrow")
    next(pieces)
    (program,) = find_programs()
    known = Path(f"/proc/{program}/environ").read_text()
    opened = sorted(os.listdir(f"/proc/{program}/fd"))
    pieces.close()
    assert not re.search("SECRET|DATABASE|CREDENTIAL|PASSWORD", known)
    assert opened == ["0", "1", "2"]


@pytest.mark.parametrize(("path", "is_whole"), [("/whole", True), ("/killed", False)])
def test_a_download_that_broke_off_does_not_look_whole(
    path: str, is_whole: bool, tmp_path: Path
) -> None:
    """HTTP ends an answer of unknown length by an empty chunk."""
    port = children.find_free_port()
    program = ("-m", "gunicorn", "tests.dashboard.arrow.sending_app", "--threads", "2")
    server = children.start(
        [sys.executable, *program, "--bind", f"127.0.0.1:{port}", "--no-control-socket"],
        log=tmp_path / "log",
        env=os.environ,
    )
    try:

        def answers() -> bool:
            with socket.socket() as tried:
                return tried.connect_ex(("127.0.0.1", port)) == 0

        children.wait_until(answers, "gunicorn", child=server, seconds=60)
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(
                f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
            )
            content = b"".join(iter(lambda: client.recv(1 << 16), b""))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    assert content.startswith(b"HTTP/1.1 200")
    assert b"transfer-encoding: chunked" in content.lower()
    assert b"ARROW" in content or b"value" in content
    assert content.endswith(b"\r\n0\r\n\r\n") == is_whole
    assert ("Writing a file ended with -9" in (tmp_path / "log").read_text()) != is_whole


def test_described_batches_are_json_that_the_program_reads() -> None:
    """Numbers of numpy among those of Python as well."""
    columns = [TypedColumn("count", "whole"), TypedColumn("is_good", "flag")]
    table = TypedTable(columns, [[[np.int64(3), None], [np.bool_(True), False]]])
    assert read(write_here(table, "arrow"), "arrow").to_pylist() == [
        {"count": 3, "is_good": True},
        {"count": None, "is_good": False},
    ]
    with pytest.raises(TypeError, match="complex cannot stand"):
        write_here(TypedTable(columns[:1], [[[3j]]]), "arrow")
