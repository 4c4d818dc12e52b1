"""Experiments and runs in the form in which MLflow's clients read them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import F
from django.urls import reverse

from dashboard.api.mlflow_filters import STATUSES
from dashboard.execution.run_columns import PARAMETERS
from experiments.models import Experiment, Measurement, Run

LONGEST_PARAMETER = 6000
"""Characters of a parameter, as in MLflow; longer ones, such as whole files, are left out."""
STATUS_OF_STATE = {state: word for word, states in STATUSES.items() for state in states}
READ = {
    "uid": "uid",
    "experiment": "experiment_id",
    "environment": "environment__name",
    "environment_key": "environment",
    "baseline_key": "experiment__baseline",
    "owner": "experiment__owner__username",
    "cluster": "experiment__cluster__name",
    "workload": "workload__name",
    "scale": "scale",
    "repeat": "repeat",
    "block": "job__block",
    "position": "position",
    "node": "node",
    "state": "state",
    "reason": "reason",
    "began_at": "began_at",
    "ended_at": "ended_at",
}
Json = dict[str, Any]


def describe_experiment(row: Experiment) -> Json:
    """Return an experiment; its name is its question."""
    tags = {
        "owner": str(row.owner),
        "cluster": str(row.cluster),
        "design": row.design,
        "margin": repr(row.margin),
        "primary_metric": row.primary_metric,
        "plan_hash": row.plan_hash,
        "tags": ", ".join(row.tags),
        "page": row.get_absolute_url(),
        "mlflow.note.content": row.notes,
    }
    return {
        "experiment_id": str(row.pk),
        "name": row.question,
        "artifact_location": "",
        "lifecycle_stage": "active" if row.archived_at is None else "deleted",
        "creation_time": write_time(row.created_at),
        "last_update_time": write_time(row.launched_at or row.created_at),
        "tags": _list_pairs(tags),
    }


def describe_runs(keys: Sequence[int]) -> Iterator[Json]:
    """Yield the runs of these keys, in their order, by two queries."""
    rows = (
        Run.objects.filter(pk__in=keys)
        .order_by()
        .values(
            "pk",
            **{f"run_{name}": F(path) for name, path in READ.items()},
            run_parameters=PARAMETERS,
        )
    )
    by_key = {row["pk"]: row for row in rows}
    numbers: dict[int, list[tuple[str, float]]] = {}
    stored = Measurement.objects.filter(run__in=keys).order_by("run", "metric")
    for key, metric, value in stored.values_list("run", "metric", "value"):
        numbers.setdefault(key, []).append((metric, value))
    for key in keys:
        if row := by_key.get(key):  # unless it was deleted in between
            values = {name.removeprefix("run_"): value for name, value in row.items()}
            yield _describe_run(values, numbers.get(key, ()))


def _describe_run(run: Mapping[str, Any], numbers: Sequence[tuple[str, float]]) -> Json:
    configuration = f"{run['workload']} {run['scale']}"
    name = f"{run['environment']}, {configuration}, repeat {run['repeat']}"
    ended = write_time(run["ended_at"] or run["began_at"])
    is_baseline = run["environment_key"] == run["baseline_key"]
    names = ("environment", "workload", "scale", "repeat", "position", "node", "state", "reason")
    tags = {
        **{name: run[name] for name in (*names, "cluster", "owner")},
        "configuration": configuration,
        "block": run["block"] + 1,
        "baseline": "yes" if is_baseline else "no",
        "page": reverse("run", args=[run["uid"]]),
        "mlflow.runName": name,
        "mlflow.user": run["owner"],
    }
    info = {
        "run_id": run["uid"],
        "run_uuid": run["uid"],
        "run_name": name,
        "experiment_id": str(run["experiment"]),
        "user_id": run["owner"],
        "status": STATUS_OF_STATE[run["state"]],
        "artifact_uri": "",
        "lifecycle_stage": "active",
    }
    times = {"start_time": run["began_at"], "end_time": run["ended_at"]}
    info |= {name: write_time(moment) for name, moment in times.items() if moment}
    metrics = [
        {"key": metric, "value": write_number(value), "timestamp": ended, "step": 0}
        for metric, value in numbers
    ]
    data = {"metrics": metrics, "params": _list_parameters(run["parameters"])}
    return {"info": info, "data": {**data, "tags": _list_pairs(tags)}}


def _list_parameters(parameters: Any) -> list[Json]:
    """Return parameters as pages show them, but for those that are too long."""
    texts = {name: _write_value(value) for name, value in sorted((parameters or {}).items())}
    return _list_pairs(
        {name: text for name, text in texts.items() if len(text) < LONGEST_PARAMETER}
    )


def _write_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value)


def _list_pairs(values: Mapping[str, Any]) -> list[Json]:
    return [{"key": key, "value": str(value)} for key, value in values.items() if value != ""]


def write_time(moment: datetime | None) -> int:
    """Return milliseconds since 1970; 0 for a moment that is not known."""
    return round(moment.timestamp() * 1000) if moment else 0


def write_number(value: float) -> float | str:
    """Return a number as JSON of Protocol Buffers has it: NaN is a text there."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
