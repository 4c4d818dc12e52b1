"""What the API says of runs: their fields, their numbers, and the columns of one's choice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.urls import reverse
from ninja import Schema

from dashboard.comparisons.safe_files import make_json_number
from dashboard.execution.run_columns import Column
from dashboard.execution.run_order import Value
from experiments.models import Measurement

READ_COLUMNS = (
    *("pk", "uid", "experiment", "workload__name", "environment", "environment__name"),
    *("experiment__baseline", "scale", "repeat", "job__block", "position", "state", "reason"),
    *("exit_code", "node", "began_at", "ended_at"),
)
NO_RUN = "0" * 32


class RunSchema(Schema):
    """A run: what it is of, how it ended, and its numbers."""

    id: str
    experiment: int
    workload: str
    environment: str
    is_baseline: bool
    scale: str
    repeat: int
    block: int
    position: int
    state: str
    reason: str
    exit_code: int | None
    node: str
    began_at: datetime | None
    ended_at: datetime | None
    metrics: dict[str, float | None]
    units: dict[str, str]
    page: str


class ListedRunSchema(RunSchema):
    """A run with the columns that were asked for, in `columns` by their keys.

    Metrics have their numbers there and durations seconds; what a run does not have is null.
    """

    columns: dict[str, Any] = {}


class RunDetails(RunSchema):
    """A run with what explains it."""

    message: str
    command: str
    phases: dict[str, float]
    parameters: dict[str, Any]
    snapshot: dict[str, Any]


def describe_runs(
    rows: Sequence[Mapping[str, Any]], metrics: Sequence[str] = ()
) -> Iterable[dict[str, Any]]:
    """Return what the API says of runs, with those `metrics`, or all; one query for all numbers.

    `rows` have READ_COLUMNS alone, without a model or a schema between: a list has hundreds.
    """
    numbers: dict[int, list[tuple[str, float, str]]] = {}
    stored = Measurement.objects.filter(run__in=[row["pk"] for row in rows]).order_by()
    stored = stored.filter(metric__in=metrics) if metrics else stored
    for key, metric, value, unit in stored.values_list("run", "metric", "value", "unit"):
        numbers.setdefault(key, []).append((metric, value, unit))
    pattern = reverse("run", args=[NO_RUN])
    for row in rows:
        measured = sorted(numbers.get(row["pk"], []))
        yield {
            "id": row["uid"],
            "experiment": row["experiment"],
            "workload": row["workload__name"],
            "environment": row["environment__name"],
            "is_baseline": row["environment"] == row["experiment__baseline"],
            "scale": row["scale"],
            "repeat": row["repeat"],
            "block": row["job__block"] + 1,
            "position": row["position"],
            "state": row["state"],
            "reason": row["reason"],
            "exit_code": row["exit_code"],
            "node": row["node"],
            "began_at": row["began_at"],
            "ended_at": row["ended_at"],
            "metrics": {metric: make_json_number(value) for metric, value, _ in measured},
            "units": {metric: unit for metric, _, unit in measured},
            "page": pattern.replace(NO_RUN, row["uid"]),
        }


def write_columns(columns: Sequence[Column], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's values by the keys of the columns, as JSON has them."""
    written = {}
    for column in columns:
        value = values.get(column.key)
        if isinstance(value, Value):
            value = value.number
        elif isinstance(value, timedelta):
            value = value.total_seconds()
        written[column.key] = make_json_number(value)
    return written
