"""Runs by the API: lists with the metrics of one's choice, steps and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Literal

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Field, Path, Query, Schema

from dashboard.api.document import PLAIN_TEXT
from dashboard.api.experiment_routes import REFUSED, Key, find_experiment
from dashboard.api.list_parts import MOST, USUAL, refuse_columns, send_list, send_row
from dashboard.api.problems import FieldProblem, Problem, ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.run_items import (
    READ_COLUMNS,
    ListedRunSchema,
    RunDetails,
    describe_runs,
    write_columns,
)
from dashboard.api.tokens import READ
from dashboard.comparisons.safe_files import make_json_number
from dashboard.execution.run_columns import OWN, Columns
from dashboard.execution.run_listing import read_run_list
from dashboard.execution.run_order import RunsInOrder, read_rows
from experiments.models import Experiment, Run

router = Router(tags=["Runs"])
Uid = Annotated[
    str,
    Path(
        min_length=32,
        max_length=32,
        pattern="^[0-9a-f]+$",
        description="The id of a run, which stands in the address of its page.",
    ),
]
MOST_METRICS = 20


class RunList(Schema):
    """A part of the list of runs."""

    items: list[ListedRunSchema]
    next: str | None


class SeriesSchema(Schema):
    """What a run recorded step by step."""

    metric: str
    unit: str
    warm_up: int | None
    steps: list[int] | None
    values: list[float | None]


class SeriesList(Schema):
    """All that a run recorded step by step."""

    items: list[SeriesSchema]


class RunFilters(Schema):
    """The filters and the order of the page Runs."""

    q: str = Field("", description="A part of the experiment's question, or the run's id's start.")
    state: str = Field("", description="planned, running, succeeded, failed or cancelled.")
    workload: str = Field("", description="A part of the workload's name.")
    environment: str = Field("", description="A part of the environment's name.")
    node: str = Field("", description="The name of a node.")
    where: list[str] = Field(
        [],
        description="A column, a comparison and a value; each further one narrows the list.",
        examples=[["metric.step_time>=0.19"]],
    )
    sort: str = Field(
        "",
        description="A column, with - for descending order; usually the newest run comes first.",
        examples=["-metric.step_time"],
    )
    column: list[str] = Field(
        [],
        description="A column of the page, such as took, metric.NAME, parameter.NAME or fact.NAME.",
        examples=[["parameter.steps"]],
    )


class AllRunFilters(RunFilters):
    """Those of a list that is not of one experiment."""

    cluster: int | None = Field(None, ge=1, lt=2**63, description="The number of a cluster.")
    tag: list[str] = Field([], description="A tag of the experiment.")
    archived: Literal["", "only", "all"] = Field(
        "", description="Usually runs of archived experiments are left out."
    )


def _send_runs(
    request: ApiRequest,
    filters: RunFilters,
    experiment: int | None,
    *,
    metrics: str,
    limit: int,
    cursor: str,
    fields: str,
) -> HttpResponse:
    names = [name.strip() for name in metrics.split(",") if name.strip()]
    if len(names) > MOST_METRICS:
        problems = [FieldProblem("query.metrics", f"At most {MOST_METRICS} can be asked for.")]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "Too many metrics.", problems)
    runs = _select_runs(request, filters, experiment)
    columns = runs.columns if filters.column else ()

    def describe(shown: Sequence[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
        own = [column.name for column in columns if column.kind == "metric"]
        described = describe_runs(shown, [*names, *own] if names else ())
        if not columns:
            return described
        values = {row.fields["uid"]: row.values for row in read_rows(_list_keys(shown), columns)}
        return (
            {**run, "columns": write_columns(columns, values.get(run["id"], {}))}
            for run in described
        )

    return send_list(
        request,
        runs.rows,
        ListedRunSchema,
        describe,
        limit=limit,
        cursor=cursor,
        fields=fields,
        take_keys=runs.list_keys_after if filters.sort else None,
        read=Run.objects.values(*READ_COLUMNS),
    )


def _list_keys(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    return [row["pk"] for row in rows]


def _select_runs(request: ApiRequest, filters: RunFilters, experiment: int | None) -> RunsInOrder:
    """Return the runs as the page Runs lists them. Raises Problem for what makes no sense."""
    query = request.GET.copy()
    if filters.node:
        query.appendlist("where", f"node={filters.node}")
    if not filters.sort:
        query.pop("sort", None)
    if experiment is not None:
        query["archived"] = "all"
    # What metrics and parameters there are is read where they are asked for alone.
    needs_all = filters.sort or filters.where or filters.column
    offered = None if needs_all else Columns(OWN.values())
    run_list = read_run_list(request, query, offered)  # type: ignore[arg-type]
    columns = run_list.offered
    refuse_columns((key for key in filters.column if not columns.get(key)), columns.keys)
    if run_list.problems:
        # A page leaves such a filter out and says so; a program would take all runs for its answer.
        sentences = [text.replace("is left out", "makes no sense") for text in run_list.problems]
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "Filters or an order that make no sense.",
            [FieldProblem("query", sentence) for sentence in sentences],
        )
    return replace(run_list, experiment=experiment).runs


Limit = Annotated[int, Query(ge=1, le=MOST)]
Metrics = Annotated[str, Query(description="The names of metrics, by commas; else all.")]


@router.get("runs", auth=READ, response={200: RunList, 401: ProblemSchema, 422: ProblemSchema})
def list_runs(
    request: ApiRequest,
    filters: Query[AllRunFilters],
    limit: Limit = USUAL,
    cursor: str = "",
    fields: str = "",
    metrics: Metrics = "",
) -> HttpResponse:
    """List the runs of all experiments that one may view, the newest first."""
    return _send_runs(
        request, filters, None, metrics=metrics, limit=limit, cursor=cursor, fields=fields
    )


@router.get("experiments/{pk}/runs", auth=READ, response={200: RunList, **REFUSED})
def list_experiment_runs(
    request: ApiRequest,
    pk: Key,
    filters: Query[RunFilters],
    limit: Limit = USUAL,
    cursor: str = "",
    fields: str = "",
    metrics: Metrics = "",
) -> HttpResponse:
    """List the runs of an experiment, the last one planned first."""
    experiment = find_experiment(request, pk).pk
    return _send_runs(
        request, filters, experiment, metrics=metrics, limit=limit, cursor=cursor, fields=fields
    )


def find_run(request: ApiRequest, uid: str) -> Run:
    """Return the run. Raises Http404 where one may not view its experiment."""
    visible = Experiment.objects.visible_to(request.user)
    related = ("workload", "environment", "experiment", "job__snapshot", "snapshot")
    rows = Run.objects.filter(experiment__in=visible).select_related(*related)
    return get_object_or_404(rows.defer("experiment__plan", "job__script"), uid=uid)


@router.get("runs/{uid}", auth=READ, response={200: RunDetails, **REFUSED})
def read_run(request: ApiRequest, uid: Uid) -> HttpResponse:
    """Return one run, with its command, parameters and snapshot."""
    row = find_run(request, uid)
    details = RunDetails(
        **next(iter(describe_runs(Run.objects.filter(pk=row.pk).values(*READ_COLUMNS)))),
        message=row.message,
        command=row.command,
        phases=row.phases,
        parameters=row.spec.get("workload", {}).get("parameters", {}),
        snapshot=row.snapshot_content,
    )
    return send_row(request, details.model_dump(mode="json"))


@router.get("runs/{uid}/series", auth=READ, response={200: SeriesList, **REFUSED})
def read_series(
    request: ApiRequest,
    uid: Uid,
    metric: Annotated[str, Query(description="One metric; else all.")] = "",
) -> HttpResponse:
    """Return what a run recorded step by step."""
    rows = find_run(request, uid).series.all()
    items = [
        SeriesSchema(
            metric=row.metric,
            unit=row.unit,
            warm_up=row.burn_in,
            steps=row.steps,
            values=[make_json_number(value) for value in row.values],
        )
        for row in (rows.filter(metric=metric) if metric else rows)
    ]
    return send_row(request, SeriesList(items=items).model_dump(mode="json"))


@router.get(
    "runs/{uid}/output", auth=READ, response={200: None, **REFUSED}, openapi_extra=PLAIN_TEXT
)
def read_output(request: ApiRequest, uid: Uid) -> HttpResponse:
    """Return what a run printed: all that is kept or, of older runs, the end."""
    row = find_run(request, uid)
    record = getattr(row, "stored_record", None)
    kept = record.read_output() if record else row.output_tail.encode()
    return HttpResponse(kept, content_type="text/plain; charset=utf-8")
