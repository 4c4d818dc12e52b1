"""Streamed files of all runs: what they hold, who gets what, and that none looks whole when cut."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import pandas
import pyarrow as pa
import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import OperationalError, connection, transaction
from django.test import Client, RequestFactory
from django.urls import resolve
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from dashboard.arrow import arrow_files, writing_process
from dashboard.arrow.arrow_files import Ending, write_file
from dashboard.comparisons import export_limit
from experiments.comparisons import copied_runs, joined_series
from experiments.comparisons.copied_runs import copy_series
from experiments.comparisons.run_tables import read_steps
from experiments.models import Experiment, Measurement, Run, Series
from tests.dashboard.access.test_links import link_to, visitor
from tests.dashboard.api.requests_by_token import get, log_in
from tests.factories import JobFactory, RunFactory, SeriesFactory, UserFactory

pytestmark = pytest.mark.django_db
ENDINGS: tuple[Ending, ...] = ("csv", "parquet", "arrow")


def read(content: bytes, ending: str) -> Any:
    """Return a file as a table of Arrow."""
    if ending == "parquet":
        return parquet.read_table(io.BytesIO(content))
    if ending == "arrow":
        return pa.ipc.open_stream(content).read_all()
    return pa.Table.from_pandas(pandas.read_csv(io.BytesIO(content)))


def fetch(client: Client, headers: dict[str, str], path: str) -> Any:
    answer = client.get(f"/api/v1/export/{path}", headers=headers)
    assert answer.status_code == 200, b"".join(answer)
    content = b"".join(answer.streaming_content)
    return read(content, path.partition("?")[0].rpartition(".")[2])


@pytest.fixture
def recorded(results: Experiment, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """An experiment with series, of which a part of a file has few runs."""
    for name in ("RUNS_AT_ONCE", "MEASURED_AT_ONCE", "SERIES_OF_RUNS"):
        monkeypatch.setattr(copied_runs, name, 3)
    monkeypatch.setattr(writing_process, "ASKED_AFTER", 1)
    for number, run in enumerate(results.runs.order_by("pk")):
        SeriesFactory(run=run, metric="loss", unit="1", values=[number / 8, 0.1 + 0.2])
    return results


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_has_every_run_with_its_numbers(
    recorded: Experiment, client: Client, ending: str
) -> None:
    headers = log_in(recorded.owner)
    rows = fetch(client, headers, f"runs.{ending}").to_pylist()
    runs = list(recorded.runs.order_by("pk"))
    assert [row["run"] for row in rows] == [run.uid for run in runs]
    for row, run in zip(rows, runs, strict=True):
        for number in run.measurements.all():
            assert row[f"{number.metric} ({number.unit})"] == number.value
        assert row["is_baseline"] == (run.environment_id == recorded.baseline_id)
        assert row["block"] == run.job.number
        if ending != "csv":
            assert (row["began_at"], row["ended_at"]) == (run.began_at, run.ended_at)
            assert (row["message"], row["exit_code"]) == (run.message, run.exit_code)


@pytest.mark.parametrize("ending", ENDINGS)
def test_measurements_and_series_have_a_row_each(
    recorded: Experiment, client: Client, ending: str
) -> None:
    headers = log_in(recorded.owner)
    rows = fetch(client, headers, f"measurements.{ending}").to_pylist()
    stored = Measurement.objects.values_list("run__uid", "metric", "value", "unit")
    shown = {(row["run"], row["metric"], row["value"], str(row["unit"])) for row in rows}
    assert shown == set(stored)
    assert len(rows) == len(stored)
    steps = fetch(client, headers, f"series.{ending}").to_pylist()
    assert {(row["run"], row["step"], row["value"]) for row in steps} == {
        (series.run.uid, place, value)
        for series in Series.objects.select_related("run")
        for place, value in enumerate(series.values, 1)
    }


def test_filters_are_obeyed_and_unknown_ones_refused(recorded: Experiment, client: Client) -> None:
    headers, run = log_in(recorded.owner), recorded.runs.all()[0]
    Run.objects.filter(pk=run.pk).update(state="failed", node="n7")
    address = f"runs.arrow?state=failed&experiment={recorded.pk}&node=n7&metrics="
    assert fetch(client, headers, address)["run"].to_pylist() == [run.uid]
    assert len(fetch(client, headers, "runs.parquet?environment=nothing")) == 0
    assert len(fetch(client, headers, "runs.csv?tag=nothing")) == 0
    for wrong in ("clutser=1", "state=lost", "experiment=x", "cluster=0"):
        assert get(client, f"export/runs.csv?{wrong}", headers, 422)["problems"], wrong
    get(client, "export/runs.xlsx", headers, 422)


@pytest.mark.parametrize("what", ["runs", "measurements", "series"])
def test_what_one_may_not_view_is_in_no_file(
    recorded: Experiment, client: Client, what: str
) -> None:
    Experiment.objects.update(visibility="private")
    table = fetch(client, log_in(UserFactory()), f"{what}.parquet")
    assert len(table) == 0
    assert not [name for name in table.column_names if "(" in name]  # nor a metric's name
    assert client.get(f"/api/v1/export/{what}.csv").status_code == 401
    for hides_names, status in ((False, 401), (True, 404)):
        shown = visitor(link_to(recorded, hides_names=hides_names))
        assert shown.get(f"/api/v1/export/{what}.csv").status_code == status


def test_odd_texts_come_back_and_formulas_do_not_run(recorded: Experiment, client: Client) -> None:
    texts = ['=1+1"x', "a,b\r\nc", "", "\\.", "é€😀", "NULL", "-3", "NaN"]
    runs = list(recorded.runs.order_by("pk"))[: len(texts)]
    for run, text in zip(runs, texts, strict=False):
        Run.objects.filter(pk=run.pk).update(message=text)
    headers = log_in(recorded.owner)
    messages = fetch(client, headers, "runs.parquet")["message"].to_pylist()[: len(runs)]
    assert messages == texts[: len(runs)]
    answer: Any = client.get("/api/v1/export/runs.csv", headers=headers)
    lines = list(csv.DictReader(io.StringIO(b"".join(answer).decode(), newline=""), strict=True))
    kept = [line["message"] for line in lines][: len(runs)]
    assert kept == ["'" + texts[0], *texts[1 : len(runs)]]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("failing", [1, 2])
def test_a_file_whose_database_fails_is_refused_by_its_readers(
    recorded: Experiment, client: Client, ending: str, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = copied_runs._list_ranges

    def break_off(*args: Any) -> Iterator[tuple[int, int]]:
        for number, part in enumerate(ranges(*args)):
            if number == failing:
                raise OperationalError("the connection is lost")
            yield part

    monkeypatch.setattr(copied_runs, "_list_ranges", break_off)
    answer: Any = client.get(f"/api/v1/export/runs.{ending}", headers=log_in(recorded.owner))
    pieces: list[bytes] = []
    with pytest.raises(OperationalError):
        pieces.extend(answer.streaming_content)  # which keeps what came before the error
    content = b"".join(pieces)
    assert content
    with pytest.raises((pa.ArrowInvalid, OSError, pandas.errors.ParserError)):
        read(content, ending)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.data())
def test_no_file_cut_between_its_pieces_can_be_read(sizes: list[int], data: Any) -> None:
    schema = pa.schema([("run", pa.string()), ("value", pa.float64())])
    batches = [
        pa.record_batch([["u"] * (size + 1), [0.5] * (size + 1)], schema=schema) for size in sizes
    ]
    for ending in ENDINGS:
        with pytest.MonkeyPatch.context() as changed:
            changed.setattr(arrow_files, "ROWS_OF_A_PIECE", 3)
            pieces = list(write_file(schema, iter(batches), ending))
        assert len(read(b"".join(pieces), ending)) == sum(sizes) + len(sizes)
        cut = b"".join(pieces[: data.draw(st.integers(0, len(pieces) - 1))])
        with pytest.raises((pa.ArrowInvalid, OSError, ValueError)):
            read(cut, ending)


def test_runs_that_come_while_a_file_is_sent_are_not_in_it(
    recorded: Experiment, client: Client
) -> None:
    answer: Any = client.get("/api/v1/export/runs.arrow", headers=log_in(recorded.owner))
    pieces = answer.streaming_content
    content = next(pieces)
    first, *_, last = recorded.runs.order_by("pk")
    last.delete()
    Run.objects.filter(pk=first.pk).update(node="later")
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_cursors WHERE name LIKE '_django%%'")
        assert cursor.fetchone() == (0,)
    table = read(content + b"".join(pieces), "arrow")
    assert len(table) == recorded.runs.count()
    assert "later" not in table["node"].to_pylist()


def test_only_what_is_not_packed_yet_is_packed(recorded: Experiment, client: Client) -> None:
    headers = {**log_in(recorded.owner), "accept-encoding": "gzip"}
    encodings = {}
    for ending in ENDINGS:
        answer: Any = client.get(f"/api/v1/export/runs.{ending}", headers=headers)
        b"".join(answer)
        encodings[ending] = answer["Content-Encoding"]
    assert encodings == {"csv": "gzip", "parquet": "identity", "arrow": "identity"}


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.none() | st.lists(st.integers(1, 99), max_size=6)),
        min_size=1,
        max_size=9,
    ),
    st.integers(1, 12),
)
def test_series_read_together_are_those_read_one_by_one(sizes: list[Any], at_once: int) -> None:
    """Whatever their lengths, and with steps of their own or without."""
    with transaction.atomic(), pytest.MonkeyPatch.context() as changed:
        changed.setattr(joined_series, "STEPS_AT_ONCE", at_once)
        job = JobFactory()
        for number, (length, steps) in enumerate(sizes):
            values = [number + step / 8 for step in range(length)]
            run = RunFactory(job=job, repeat=number + 1, node=f"node{number}")
            Series.objects.create(run=run, metric="loss", unit="1", values=values, steps=steps)
        rows = Series.objects.filter(run__job=job)
        expected = [
            row for batch in read_steps(rows) for row in zip(*map(list, batch), strict=True)
        ]
        table = copy_series(Run.objects.filter(job=job))
        batches = list(table.batches)
        assert all(len(column) == len(batch[-1]) > 0 for batch in batches for column in batch)
        read = [row for batch in batches for row in zip(*map(list, batch), strict=True)]
        assert read == expected
        longest = max(length for length, _ in sizes)
        assert all(len(batch[-1]) <= max(at_once, longest) for batch in batches)
        transaction.set_rollback(True)


@pytest.mark.parametrize("path", ["export/runs.csv", "export/series.parquet"])
def test_head_computes_no_file_that_is_left_out(recorded: Experiment, path: str) -> None:
    """A client of tests would leave the content out by itself: the view is asked."""
    headers = {f"HTTP_{name}": value for name, value in log_in(recorded.owner).items()}
    request = RequestFactory().head(f"/api/v1/{path}", **{n.upper(): v for n, v in headers.items()})
    request.user = AnonymousUser()
    found = resolve(f"/api/v1/{path}")
    answer = found.func(request, *found.args, **found.kwargs)
    assert (answer.status_code, b"".join(answer.streaming_content)) == (200, b"")
    assert "attachment" in answer["Content-Disposition"]
    answer.close()
    assert len(export_limit._free) == export_limit.MOST_AT_ONCE
