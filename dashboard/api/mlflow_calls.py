"""The calls of MLflow's REST API that read, each with the parameters that it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.shortcuts import get_object_or_404

from dashboard.api.list_parts import MOST, read_cursor, write_cursor
from dashboard.api.mlflow_filters import read_experiment_filter, read_filter, read_order, refuse
from dashboard.api.mlflow_rows import (
    describe_experiment,
    describe_runs,
    write_number,
    write_time,
)
from dashboard.api.problems import Problem
from dashboard.api.requests import ApiRequest
from dashboard.api.run_routes import find_run
from dashboard.execution.run_columns import shorten
from dashboard.execution.run_order import RunsInOrder
from dashboard.lists import RowGone
from dashboard.typed_requests import parse_whole_number
from experiments.models import Experiment, Measurement, Run, Series

Json = dict[str, Any]
MOST_STEPS = 25_000
"""Of a history in one answer, as MLflow's clients ask for."""
NEWEST_FIRST = ("creation_time DESC", "experiment_id DESC", "last_update_time DESC")
VIEWS = {"ACTIVE_ONLY": True, "DELETED_ONLY": False, "ALL": None}
"""Which experiments: those that are not archived, those that are, and both."""
SAME_NAME = 5


@dataclass(frozen=True)
class Parameters:
    """What was sent, from an address or as JSON."""

    values: Mapping[str, Any]

    def read_text(self, name: str) -> str:
        """Return a text, "" where there is none. Raises Problem."""
        value = self.values.get(name, "")
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise refuse(f"“{name}” is a text.")
        return str(value)

    def read_texts(self, name: str) -> list[str]:
        """Return a list of texts. Raises Problem."""
        values = self.values.get(name, [])
        if not isinstance(values, list) or not all(isinstance(each, str | int) for each in values):
            raise refuse(f"“{name}” is a list of texts.")
        return [str(value) for value in values]

    def read_count(self, name: str, usual: int, most: int) -> int:
        """Return a whole number from 1, at most `most`. Raises Problem."""
        text = self.read_text(name)
        number = parse_whole_number(text) if text else usual
        if not number:
            raise refuse(f"“{name}” is a whole number from 1.")
        return min(number, most)

    def read_view(self, name: str) -> bool | None:
        """Return whether what is active is meant alone (True), or what is not; None for both."""
        text = self.read_text(name) or "ACTIVE_ONLY"
        if text not in VIEWS:
            raise refuse(f"“{name}” is one of {', '.join(VIEWS)}.")
        return VIEWS[text]


def search_experiments(request: ApiRequest, sent: Parameters) -> Json:
    """List experiments, the newest first."""
    for order in sent.read_texts("order_by"):
        if order not in NEWEST_FIRST:
            raise refuse(f"Experiments are sorted by “{NEWEST_FIRST[0]}” alone.")
    rows = _list_visible(request).filter(**read_experiment_filter(sent.read_text("filter")))
    is_active = sent.read_view("view_type")
    if is_active is not None:
        rows = rows.filter(archived_at__isnull=is_active)
    count = sent.read_count("max_results", MOST, MOST)
    after = read_cursor(sent.read_text("page_token"))
    rows = rows.order_by("-pk")
    shown = list((rows if after is None else rows.filter(pk__lt=after))[: count + 1])
    answer: Json = {"experiments": [describe_experiment(row) for row in shown[:count]]}
    if len(shown) > count:
        answer["next_page_token"] = write_cursor(shown[count - 1].pk)
    return answer


def get_experiment(request: ApiRequest, sent: Parameters) -> Json:
    """Return an experiment by its number."""
    number = parse_whole_number(sent.read_text("experiment_id"))
    return {"experiment": describe_experiment(get_object_or_404(_list_visible(request), pk=number))}


def get_experiment_by_name(request: ApiRequest, sent: Parameters) -> Json:
    """Return the experiment with this question, if there is one alone."""
    name = sent.read_text("experiment_name")
    rows = list(_list_visible(request).filter(question=name).order_by("-pk")[: SAME_NAME + 1])
    if not rows:
        raise Problem(HTTPStatus.NOT_FOUND, f"No experiment asks “{shorten(name)}”.")
    if len(rows) > 1:
        numbers = ", ".join(str(row.pk) for row in rows[:SAME_NAME])
        raise refuse(
            f"Several experiments ask “{shorten(name)}”: ask for one by its number ({numbers})."
        )
    return {"experiment": describe_experiment(rows[0])}


def _list_visible(request: ApiRequest) -> Any:
    rows = Experiment.objects.visible_to(request.user).without_plan()
    return rows.select_related("owner", "cluster")


def search_runs(request: ApiRequest, sent: Parameters) -> Json:
    """List the runs of some experiments that fulfil a filter."""
    numbers = [parse_whole_number(text) for text in sent.read_texts("experiment_ids")]
    column, is_descending = read_order(sent.read_texts("order_by"))
    conditions = read_filter(sent.read_text("filter"))
    if sent.read_view("run_view_type") is False:
        return {"runs": []}
    visible = Experiment.objects.visible_to(request.user)
    asked = visible.filter(pk__in=[number for number in numbers if number is not None])
    rows = Run.objects.filter(experiment__in=asked)
    runs = RunsInOrder(rows, conditions, (), column, descending=is_descending)
    count = sent.read_count("max_results", MOST, MOST)
    try:
        keys = runs.list_keys_after(read_cursor(sent.read_text("page_token")), count + 1)
    except RowGone:
        raise refuse("The run after which the list should go on is no longer there.") from None
    answer: Json = {"runs": list(describe_runs(keys[:count]))}
    if len(keys) > count:
        answer["next_page_token"] = write_cursor(keys[count - 1])
    return answer


def get_run(request: ApiRequest, sent: Parameters) -> Json:
    """Return a run with its metrics, parameters and tags."""
    return {"run": next(describe_runs([_find_run(request, sent).pk]))}


def _find_run(request: ApiRequest, sent: Parameters) -> Run:
    return find_run(request, sent.read_text("run_id") or sent.read_text("run_uuid"))


def get_metric_history(request: ApiRequest, sent: Parameters) -> Json:
    """Return the steps of a metric or, where none were recorded, its one number.

    Steps have no times of their own: each has that of the run's end.
    """
    run, metric = _find_run(request, sent), sent.read_text("metric_key")
    count = sent.read_count("max_results", MOST_STEPS, MOST_STEPS)
    first = read_cursor(sent.read_text("page_token")) or 0
    time = write_time(run.ended_at or run.began_at)
    series = Series.objects.filter(run=run, metric=metric).first()
    if series is None:
        stored = Measurement.objects.filter(run=run, metric=metric).values_list("value", flat=True)
        shown = [(value, 0) for value in stored]
    else:
        steps = series.steps or range(1, len(series.values) + 1)
        shown = list(zip(series.values, steps, strict=False))
    answer: Json = {
        "metrics": [
            {"key": metric, "value": write_number(value), "timestamp": time, "step": step}
            for value, step in shown[first : first + count]
        ]
    }
    if len(shown) > first + count:
        answer["next_page_token"] = write_cursor(first + count)
    return answer


@dataclass(frozen=True)
class Call:
    """A call: the methods by which clients send it, its parameters, and what answers it."""

    methods: tuple[str, ...]
    parameters: tuple[str, ...]
    answer: Callable[[ApiRequest, Parameters], Json]


PAGE = ("max_results", "page_token")
OF_RUN = ("run_id", "run_uuid")
OF_MODELS = (*PAGE, "filter", "order_by")
CALLS = {
    "experiments/search": Call(
        ("POST", "GET"), (*PAGE, "filter", "order_by", "view_type"), search_experiments
    ),
    "experiments/get": Call(("GET",), ("experiment_id",), get_experiment),
    "experiments/get-by-name": Call(("GET",), ("experiment_name",), get_experiment_by_name),
    "runs/search": Call(
        ("POST",),
        (*PAGE, "experiment_ids", "filter", "order_by", "run_view_type"),
        search_runs,
    ),
    "runs/get": Call(("GET",), OF_RUN, get_run),
    "metrics/get-history": Call(("GET",), (*PAGE, *OF_RUN, "metric_key"), get_metric_history),
    "registered-models/search": Call(
        ("GET",), OF_MODELS, lambda request, sent: {"registered_models": []}
    ),
    "model-versions/search": Call(
        ("GET",), OF_MODELS, lambda request, sent: {"model_versions": []}
    ),
}
"""By the end of the address. Tare has no models, and says so by an empty list."""
