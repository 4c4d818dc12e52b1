"""Parquet and CSV files of runs, measurements and steps: typed, whole, and sent part by part.

The Parquet files are read by another library than the one that wrote them.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.arrow import writing_process
from dashboard.arrow.writing_process import write_table
from experiments.comparisons import compare_experiment
from experiments.comparisons.typed_tables import (
    Batch,
    TypedColumn,
    TypedTable,
    infer_columns,
    make_table,
)
from experiments.models import Experiment, Measurement, Run
from tests.dashboard.access.test_links import link_to, visitor
from tests.dashboard.arrow.written_here import write_here
from tests.dashboard.conftest import People, Site, measured
from tests.factories import ExperimentFactory, PublishedTableFactory, SeriesFactory

database = pytest.mark.django_db


class ParquetFile:
    """A file as DuckDB reads it."""

    def __init__(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        self.path = path

    def select(self, what: str = "COLUMNS(*)::VARCHAR", rest: str = "") -> list[tuple[Any, ...]]:
        with duckdb.connect() as connection:
            query = f"SELECT {what} FROM read_parquet('{self.path}') {rest}"
            rows: list[tuple[Any, ...]] = connection.sql(query).fetchall()
            return rows

    @property
    def types(self) -> dict[str, str]:
        with duckdb.connect() as connection:
            rows = connection.sql(f"DESCRIBE FROM read_parquet('{self.path}')").fetchall()
            return {row[0]: row[1] for row in rows}

    @property
    def facts(self) -> dict[str, str]:
        with duckdb.connect() as connection:
            query = f"SELECT key, value FROM parquet_kv_metadata('{self.path}')"
            return {key.decode(): value.decode() for key, value in connection.sql(query).fetchall()}

    @property
    def parts(self) -> int:
        with duckdb.connect() as connection:
            query = f"SELECT count(DISTINCT row_group_id) FROM parquet_metadata('{self.path}')"
            (row,) = connection.sql(query).fetchall()
            return int(row[0])


def fetch(client: Client, address: str, folder: Path) -> ParquetFile:
    answer: Any = client.get(address)
    assert answer["Content-Type"] == "application/vnd.apache.parquet"
    assert answer["Content-Disposition"].startswith("attachment;")
    return ParquetFile(folder / "file.parquet", b"".join(answer.streaming_content))


def read_csv(client: Client, name: str, experiment: Experiment) -> list[dict[str, str]]:
    answer: Any = client.get(reverse(name, args=[experiment.pk]))
    text = b"".join(answer.streaming_content).decode()
    return list(csv.DictReader(io.StringIO(text)))


@database
def test_runs_have_the_columns_of_the_csv_file_with_types(
    results: Experiment, as_owner: Client, tmp_path: Path
) -> None:
    file = fetch(as_owner, reverse("runs_parquet", args=[results.pk]), tmp_path)
    rows = read_csv(as_owner, "runs_csv", results)
    names = list(file.types)
    assert [name for name in names if name in rows[0]] == list(rows[0])
    assert file.types["step_time (s)"] == file.types["compared"] == "DOUBLE"
    assert file.types["began_at"] == file.types["excluded_at"] == "TIMESTAMP WITH TIME ZONE"
    assert file.types["exit_code"] == "BIGINT"
    assert file.types["excluded_after_a_verdict"] == "BOOLEAN"
    exported = file.select('run, "step_time (s)", compared, epoch_us(began_at), block')
    assert exported == [
        (
            row["run"],
            float(row["step_time (s)"]),
            float(row["compared"]),
            round(datetime.fromisoformat(row["began_at"]).timestamp() * 1e6),
            int(row["block"]),
        )
        for row in rows
    ]


@database
def test_what_is_missing_is_null_and_what_is_not_a_number_stays_so(
    results: Experiment, as_owner: Client, tmp_path: Path
) -> None:
    first, second, *_ = results.runs.order_by("job__block", "position")
    Run.objects.filter(pk=first.pk).update(state="failed", reason="crashed", began_at=None)
    first.measurements.all().delete()
    Measurement.objects.filter(run=second).update(value=float("nan"))
    file = fetch(as_owner, reverse("runs_parquet", args=[results.pk]), tmp_path)
    missing, odd, *_ = file.select('"step_time (s)", epoch_us(began_at), reason')
    assert missing == (None, None, "crashed")
    assert math.isnan(odd[0])


@database
def test_a_file_says_its_units_its_source_and_the_version_of_the_method(
    results: Experiment, as_owner: Client, tmp_path: Path
) -> None:
    facts = fetch(as_owner, reverse("runs_parquet", args=[results.pk]), tmp_path).facts
    assert facts["tare.question"] == results.question
    assert facts["tare.experiment"] == str(results.pk)
    assert facts["tare.plan_hash"] == results.plan_hash
    assert len(facts["tare.method"]) == 64
    assert json.loads(facts["tare.columns"])["step_time (s)"] == {"unit": "s"}


@database
def test_measurements_and_steps_have_a_row_each(
    results: Experiment, as_owner: Client, tmp_path: Path
) -> None:
    run = results.runs.order_by("job__block", "position")[1]
    SeriesFactory(run=run, metric="step_time", values=[0.5, float("nan"), 0.25])
    SeriesFactory(run=run, metric="loss", unit="1", values=[3.0, 2.0], steps=[10, 20])
    SeriesFactory(run=run, metric="none", unit="1", values=[])
    numbers = fetch(as_owner, reverse("measurements_parquet", args=[results.pk]), tmp_path)
    assert sorted(numbers.select("run, metric, value, unit")) == sorted(
        Measurement.objects.filter(run__experiment=results).values_list(
            "run__uid", "metric", "value", "unit"
        )
    )
    steps = fetch(as_owner, reverse("series_parquet", args=[results.pk]), tmp_path)
    about = (run.uid, run.job.block + 1, run.environment.name, run.node)
    assert steps.types["step"] == "BIGINT"
    read = steps.select("run, block, environment, node, metric, unit, step, value")
    assert [str(row) for row in read] == [
        str((*about, *rest))
        for rest in (
            ("loss", "1", 10, 3.0),
            ("loss", "1", 20, 2.0),
            ("step_time", "s", 1, 0.5),
            ("step_time", "s", 2, float("nan")),
            ("step_time", "s", 3, 0.25),
        )
    ]
    rows = read_csv(as_owner, "series_csv", results)
    assert [(row["metric"], row["step"], row["value"]) for row in rows] == [
        ("loss", "10", "3.0"),
        ("loss", "20", "2.0"),
        ("step_time", "1", "0.5"),
        ("step_time", "2", "nan"),
        ("step_time", "3", "0.25"),
    ]
    assert len(read_csv(as_owner, "measurements_csv", results)) == 10


@database
def test_the_comparison_has_its_numbers(
    results: Experiment, as_owner: Client, tmp_path: Path
) -> None:
    file = fetch(as_owner, reverse("comparison_parquet", args=[results.pk]), tmp_path)
    (pair,) = compare_experiment(results).pairs
    assert file.select("ratio, ci95_low, ci95_high, verdict, n_blocks") == [
        (pair.ratio, *(pair.ci95 or ()), str(pair.verdict), 5.0)
    ]
    assert file.types["question"] == file.types["verdict"] == "VARCHAR"


@database
def test_an_experiment_without_runs_has_files_without_rows(
    site: Site, people: People, as_owner: Client, tmp_path: Path
) -> None:
    empty = measured(site, people.owner, blocks=0)
    for name in ("runs", "measurements", "series"):
        file = fetch(as_owner, reverse(f"{name}_parquet", args=[empty.pk]), tmp_path)
        assert file.select() == []
        assert "run" in file.types
    assert read_csv(as_owner, "series_csv", empty) == []
    fetch(as_owner, reverse("comparison_parquet", args=[empty.pk]), tmp_path)


@database
def test_a_list_of_runs_has_the_columns_of_its_address(
    results: Experiment, as_owner: Client, tmp_path: Path
) -> None:
    run = results.runs.all()[0]
    Measurement.objects.filter(run=run).update(value=20, unit="ms")
    for number, row in enumerate(results.runs.all()):
        row.spec = {"workload": {"parameters": {"steps": 10**number, "mode": number or "fast"}}}
        row.save(update_fields=["spec"])
    query = "&".join(
        f"column={key}"
        for key in ("state", "metric.step_time", "took", "began", "exit_code", "parameter.steps")
    )
    file = fetch(as_owner, f"/runs.parquet?{query}", tmp_path)
    assert file.types == {
        "run": "VARCHAR",
        "state": "VARCHAR",
        "metric.step_time": "DOUBLE",
        "metric.step_time unit": "VARCHAR",
        "took (s)": "DOUBLE",
        "began": "TIMESTAMP WITH TIME ZONE",
        "exit_code": "BIGINT",
        "parameter.steps": "DOUBLE",
    }
    assert len(file.select()) == 10
    chosen = file.select('"metric.step_time", "metric.step_time unit"', f"WHERE run = '{run.uid}'")
    assert chosen == [(20.0, "ms")]
    assert len(fetch(as_owner, "/runs.parquet?where=state=failed", tmp_path).select()) == 0


@database
def test_a_list_of_experiments_has_the_columns_of_its_address(
    results: Experiment, site: Site, people: People, as_owner: Client, tmp_path: Path
) -> None:
    draft = ExperimentFactory(
        owner=people.owner, question="=1+1, not launched", cluster=site.cluster
    )
    keys = ("state", "runs", "failed", "repeats", "margin", "launched", "tags")
    query = "&".join(f"column={key}" for key in keys)
    file = fetch(as_owner, f"/experiments.parquet?{query}", tmp_path)
    assert file.types == {
        "experiment": "BIGINT",
        "question": "VARCHAR",
        "state": "VARCHAR",
        "runs": "VARCHAR",
        "failed": "BIGINT",
        "repeats": "BIGINT",
        "margin": "DOUBLE",
        "launched": "TIMESTAMP WITH TIME ZONE",
        "tags": "VARCHAR",
    }
    rows = {row[0]: row[1:] for row in file.select("experiment, question, runs, margin, tags")}
    assert rows[draft.pk] == ("=1+1, not launched", None, draft.margin, None)
    assert rows[results.pk] == (results.question, "10/10", results.margin, None)
    found = fetch(as_owner, "/experiments.parquet?q=not+launched", tmp_path)
    assert found.select("experiment") == [(draft.pk,)]


@database
def test_names_are_hidden_in_the_compressed_file_too(results: Experiment, tmp_path: Path) -> None:
    Run.objects.filter(experiment=results).update(message="lost /home/emmy/x", node="cn42")
    client = visitor(link_to(results, hides_names=True))
    for name in ("runs", "measurements", "series", "comparison"):
        address = reverse(f"{name}_parquet", args=[results.pk])
        said = str(fetch(client, address, tmp_path).select())
        assert "emmy" not in said, name
        assert "cn42" not in said, name
    runs = fetch(client, reverse("runs_parquet", args=[results.pk]), tmp_path)
    assert {row[0] for row in runs.select("message")} == {"lost /directory/x"}
    answer: Any = client.get(reverse("measurements_csv", args=[results.pk]))
    assert "cn42" not in b"".join(answer.streaming_content).decode()
    shown = visitor(link_to(results))
    said = str(fetch(shown, reverse("runs_parquet", args=[results.pk]), tmp_path).select())
    assert "emmy" in said  # it is a choice of the link


@database
def test_a_table_that_was_published_has_a_file(
    people: People, as_owner: Client, tmp_path: Path
) -> None:
    row = PublishedTableFactory(owner=people.owner)
    file = fetch(as_owner, reverse("table_parquet", args=[row.pk]), tmp_path)
    assert file.select("question") == [(row.question,)] * len(file.select())
    assert file.facts["tare.question"] == row.question


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NUMBERS = st.none() | st.floats() | st.integers(-(2**53), 2**53)
TIMES = st.none() | st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.just(UTC))


@settings(max_examples=30)
@given(st.lists(st.tuples(st.none() | st.text(), NUMBERS, st.none() | st.booleans(), TIMES)))
def test_any_values_are_read_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]]
) -> None:
    columns = [
        TypedColumn("text"),
        TypedColumn("number", "number"),
        TypedColumn("flag", "flag"),
        TypedColumn("time", "time"),
    ]
    named = [dict(zip(("text", "number", "flag", "time"), row, strict=True)) for row in rows]
    content = write_here(make_table(columns, named), "parquet")
    file = ParquetFile(tmp_path_factory.getbasetemp() / "any.parquet", content)
    read = file.select('"text", "number", flag, epoch_us("time")')
    assert [str(row) for row in read] == [
        str(
            (
                text,
                None if number is None else float(number),
                flag,
                None if time is None else (time - EPOCH) // timedelta(microseconds=1),
            )
        )
        for text, number, flag, time in rows
    ]


def test_odd_values_break_no_file(tmp_path: Path) -> None:
    rows = [
        {"mixed": 1, "big": 10**400, "text": {"a": [1]}},
        {"mixed": "two", "big": 2.5, "text": "\ud800"},
    ]
    columns = [*infer_columns(rows)[:1], TypedColumn("big", "number"), TypedColumn("text")]
    file = ParquetFile(tmp_path / "odd", write_here(make_table(columns, rows), "parquet"))
    assert file.select("*") == [("1", math.inf, '{"a": [1]}'), ("two", 2.5, "?")]


def test_a_long_table_is_never_held_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing_process, "ROWS_OF_A_PART", 20_000)

    def list_batches() -> Iterator[Batch]:
        for number in range(200):
            yield [[f"run {number}"] * 1000, range(1000), [0.5] * 1000]

    columns = [TypedColumn("run"), TypedColumn("step", "whole"), TypedColumn("value", "number")]
    with (tmp_path / "sent").open("wb") as sent:
        for piece in write_table(TypedTable(columns, list_batches()), "parquet"):
            sent.write(piece)
    file = ParquetFile(tmp_path / "copy", (tmp_path / "sent").read_bytes())
    assert file.select("count(*), sum(value)") == [(200_000, 100_000.0)]
    assert file.parts == 10


def test_the_first_part_is_sent_before_the_second_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing_process, "ROWS_OF_A_PART", 10)
    taken: list[int] = []

    def list_batches() -> Iterator[Batch]:
        for number in range(100):
            taken.append(number)
            yield [[number] * 5]

    monkeypatch.setattr(writing_process, "ASKED_AFTER", 1)
    table = TypedTable([TypedColumn("number", "whole")], list_batches())
    pieces = write_table(table, "parquet")
    assert next(pieces).startswith(b"PAR1")
    assert taken == [0, 1]
    pieces.close()
