"""Long files: read without a cursor, their common texts made once, and only a few at a time."""

from __future__ import annotations

import csv
import gc
import io
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import Client, RequestFactory
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from dashboard.comparisons import table_files
from dashboard.comparisons.export_limit import MOST_AT_ONCE, limit_exports
from experiments.comparisons import rows_by_key, run_rows, run_tables, series
from experiments.comparisons.typed_tables import Repeated, TypedColumn, TypedTable
from experiments.models import Experiment, Run, Series
from tests.dashboard.access.test_links import link_to, visitor
from tests.dashboard.arrow.written_here import write_here
from tests.factories import SeriesFactory

LONG_FILES = ("series_csv", "measurements_csv", "runs_csv", "runs_json", "runs_parquet")


@pytest.fixture
def recorded(results: Experiment) -> Experiment:
    """An experiment of which each run has recorded two series."""
    for number, run in enumerate(results.runs.order_by("pk")):
        SeriesFactory(run=run, metric="step_time", values=[number / 8, 0.5])
        SeriesFactory(run=run, metric="loss", unit="1", values=[float(number)])
    return results


def count_cursors() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_cursors WHERE name LIKE '_django%%'")
        return int(cursor.fetchone()[0])


@pytest.mark.django_db
def test_the_database_keeps_no_file_while_a_reader_is_slow(
    recorded: Experiment, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_tables, "SERIES_AT_ONCE", 3)
    monkeypatch.setattr(run_tables, "ROWS_AT_ONCE", 3)
    for name in ("series_csv", "measurements_csv"):
        answer: Any = as_owner.get(reverse(name, args=[recorded.pk]))
        pieces = answer.streaming_content
        next(pieces), next(pieces)
        assert count_cursors() == 0, name
        assert len(list(pieces)) > 2, name


@pytest.mark.django_db
def test_a_file_read_in_parts_is_the_same(
    recorded: Experiment, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(name: str) -> bytes:
        answer: Any = as_owner.get(reverse(name, args=[recorded.pk]))
        return b"".join(answer) if answer.streaming else answer.content

    whole = {name: read(name) for name in LONG_FILES}
    shown = read_all_series(recorded)
    for module in (run_rows, run_tables):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(run_tables, "SERIES_AT_ONCE", 3)
    monkeypatch.setattr(series, "CHUNK", 3)
    assert {name: read(name) for name in LONG_FILES} == whole
    assert str(read_all_series(recorded)) == str(shown)


def read_all_series(experiment: Experiment) -> Any:
    return series.read_series(experiment, experiment.workloads.get(), experiment.scales[0])


@pytest.mark.django_db
def test_rows_that_are_deleted_while_a_file_is_sent_are_left_out(recorded: Experiment) -> None:
    rows = Series.objects.order_by("-pk")
    keys = list(rows.values_list("pk", flat=True))
    values = rows_by_key.iterate_values(rows, keys, ["pk"], 4)
    read = [next(values)]
    Series.objects.filter(pk=keys[5]).delete()
    read += values
    assert [key for (key,) in read] == [*keys[:5], *keys[6:]]
    runs = rows_by_key.iterate_rows(Run.objects.order_by("-pk"), 4)
    first = next(runs)
    assert [first, *runs] == list(Run.objects.order_by("-pk"))


def test_a_text_that_all_rows_share_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def make_safe_cell(value: Any) -> Any:
        made.append(value)
        return f"'{value}"

    monkeypatch.setattr(table_files, "make_safe_cell", make_safe_cell)
    columns = [TypedColumn("run"), TypedColumn("step", "whole"), TypedColumn("value", "number")]
    batches = [[Repeated("=1", 1000), range(1000), [0.5] * 1000]]
    lines = "".join(table_files._write_csv(TypedTable(columns, batches))).splitlines()
    assert made.count("=1") == 1
    assert lines[1:] == [f"'=1,{step},'0.5" for step in range(1000)]


@given(
    st.lists(st.none() | st.text() | st.integers(), max_size=3),
    st.lists(st.tuples(st.none() | st.text(max_size=3), st.integers(0, 9)), max_size=4),
    st.booleans(),
)
def test_repeated_values_are_written_like_any_others(
    shared: list[Any], rows: list[tuple[Any, int]], hides: bool
) -> None:
    kinds = [TypedColumn(f"shared {number}") for number in range(len(shared))]
    columns = [*kinds, TypedColumn("text"), TypedColumn("number", "number")]
    ends = [list(column) for column in zip(*rows, strict=True)] or [[], []]
    short = [*(Repeated(value, len(rows)) for value in shared), *ends]
    long = [*([value] * len(rows) for value in shared), *ends]
    tables = [TypedTable(columns, [batch]) for batch in (short, long)]
    if hides:
        tables = [table.change_texts(str.upper) for table in tables]
    read = [
        list(csv.reader(io.StringIO("".join(table_files._write_csv(table)), newline="")))
        for table in tables
    ]
    assert read[0] == read[1]
    assert write_here(tables[0], "parquet") == write_here(tables[1], "parquet")


def test_a_repeated_value_is_a_sequence() -> None:
    values = Repeated("a", 3)
    assert list(values) == ["a"] * 3
    assert values[:2] == ["a"] * 2
    assert values[-1] == "a"
    with pytest.raises(IndexError):
        values[3]


@pytest.mark.django_db
@pytest.mark.parametrize("name", LONG_FILES)
def test_a_third_long_file_is_refused_until_one_has_ended(
    recorded: Experiment, as_owner: Client, name: str
) -> None:
    address = reverse("series_csv", args=[recorded.pk])
    sent: list[Any] = [as_owner.get(address) for _ in range(MOST_AT_ONCE)]
    refused = visitor(link_to(recorded)).get(reverse(name, args=[recorded.pk]))
    assert refused.status_code == 503
    assert int(refused["Retry-After"]) > 0
    assert "Tare is already sending as many long files as it can" in refused.content.decode()
    comparison: Any = as_owner.get(reverse("comparison_csv", args=[recorded.pk]))
    assert comparison.status_code == 200  # a short file
    by_arrow = as_owner.get(reverse("comparison_parquet", args=[recorded.pk]))
    assert by_arrow.status_code == 503  # a process of its own, of which there are as many as files
    assert b"".join(sent[0].streaming_content)
    assert as_owner.get(reverse(name, args=[recorded.pk])).status_code == 200
    sent[1].close()


@pytest.mark.django_db
def test_lists_count_as_long_files(recorded: Experiment, as_owner: Client) -> None:
    address = reverse("series_parquet", args=[recorded.pk])
    sent: list[Any] = [as_owner.get(address) for _ in range(MOST_AT_ONCE)]
    for other in ("/runs.csv", "/runs.parquet", "/experiments.csv", "/experiments.parquet"):
        assert as_owner.get(other).status_code == 503, other
    chosen = {"action": "export", "all": "on"}
    for other in ("runs_selected", "experiments_selected"):
        refused = as_owner.post(reverse(other), chosen)
        assert refused.status_code == 503, other
        assert "Go back, and try" in refused.content.decode()
    for answer in sent:
        answer.close()


@limit_exports
def send_pieces(request: HttpRequest, what: str = "") -> Any:
    """Stream three pieces, or do what is asked."""
    if what == "text":
        return HttpResponse("short")
    if what == "error":
        raise ZeroDivisionError

    def make_pieces() -> Iterator[str]:
        yield "1"
        if what == "breaks":
            raise ZeroDivisionError
        yield "2"

    return StreamingHttpResponse(make_pieces())


@pytest.mark.django_db
def test_a_place_is_free_again_however_a_file_ends(rf: RequestFactory) -> None:
    request = rf.get("/")
    for _ in range(MOST_AT_ONCE + 1):
        assert send_pieces(request, what="text").status_code == 200
    for _ in range(MOST_AT_ONCE + 1):
        with pytest.raises(ZeroDivisionError):
            send_pieces(request, what="error")
    for _ in range(MOST_AT_ONCE + 1):
        with pytest.raises(ZeroDivisionError):
            list(send_pieces(request, what="breaks"))
    for _ in range(MOST_AT_ONCE + 1):
        assert b"".join(send_pieces(request)) == b"12"
    for _ in range(MOST_AT_ONCE + 1):  # readers that go away, before the first byte and after it
        answer = send_pieces(request)
        answer.close()
        answer.close()
        answer = send_pieces(request)
        next(iter(answer))
        answer.close()
    for _ in range(MOST_AT_ONCE + 1):  # nobody closed it
        assert send_pieces(request).status_code == 200
        gc.collect()
    open_ = [send_pieces(request) for _ in range(MOST_AT_ONCE)]
    assert len(open_) == MOST_AT_ONCE
