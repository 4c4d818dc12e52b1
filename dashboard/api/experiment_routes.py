"""Experiments by the API: lists, their state, their events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Field, Path, Query, Schema

from dashboard.api.list_parts import MOST, USUAL, refuse_columns, send_list, send_row
from dashboard.api.problems import FieldProblem, Problem, ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import READ
from dashboard.execution.experiment_columns import (
    COLUMNS,
    SORTS,
    ExperimentColumn,
    find_column,
)
from dashboard.execution.experiment_listing import read_experiment_list, read_experiments
from experiments.comparisons import read_kept_verdicts
from experiments.execution.progress import measure_progress
from experiments.models import Event, Experiment, User

router = Router(tags=["Experiments"])
Key = Annotated[int, Path(ge=1, lt=2**63, description="The number in the address of its page.")]
REFUSED: dict[int, Any] = {401: ProblemSchema, 403: ProblemSchema, 404: ProblemSchema}


class ExperimentSchema(Schema):
    """An experiment: its definition in short, its state and its verdicts."""

    id: int
    question: str
    notes: str
    tags: list[str]
    state: str
    is_draft: bool
    is_alive: bool
    cluster: str
    partition: str | None
    owner: str
    visibility: str
    scales: list[str]
    repeats: int
    margin: float
    design: str
    primary_metric: str
    runs: dict[str, int]
    verdicts: dict[str, int]
    created_at: datetime
    launched_at: datetime | None
    plan_hash: str
    copied_from: int | None
    page: str


class ListedExperimentSchema(ExperimentSchema):
    """An experiment with the columns that were asked for, in `columns` by their keys."""

    columns: dict[str, Any] = {}


class ExperimentList(Schema):
    """A part of the list of experiments."""

    items: list[ListedExperimentSchema]
    next: str | None


class EventSchema(Schema):
    """Something that happened: what, when, by whom and why."""

    id: int
    at: datetime
    who: str
    what: str
    why: str
    run: str | None


class EventList(Schema):
    """A part of the list of events, the newest first."""

    items: list[EventSchema]
    next: str | None


class ExperimentFilters(Schema):
    """The filters and the order of the page Experiments."""

    q: str = Field("", description="A part of the question.")
    state: Literal["", "draft", "alive", "ended", "imported"] = Field(
        "", description="alive: waiting, queued or running."
    )
    cluster: int | None = Field(None, ge=1, lt=2**63, description="The number of a cluster.")
    mine: str = Field("", description="me, or the name of an owner.")
    tag: str = Field("", description="A tag.")
    archived: Literal["", "only", "all"] = Field(
        "", description="Usually archived experiments are left out."
    )
    sort: str = Field(
        "",
        description="A column, with - for descending order; usually the newest one comes first.",
        examples=["-launched"],
    )
    column: list[str] = Field(
        [],
        description="A column of the page, such as workloads or metric.step_time.",
        examples=[["workloads"]],
    )
    where: list[str] = Field(
        [],
        description="What one of its runs that count fulfils, such as metric.step_time<0.2.",
        examples=[["metric.step_time<0.2"]],
    )


def describe_experiments(rows: Sequence[Experiment], user: User) -> Iterable[ExperimentSchema]:
    """Return what the API says of experiments to this person; some queries for all of them."""
    all_progress, all_verdicts = measure_progress(rows), read_kept_verdicts(rows)
    sources = {row.copied_from_id for row in rows if row.copied_from_id is not None}
    visible = Experiment.objects.visible_to(user).filter(pk__in=sources)
    known = set(visible.values_list("pk", flat=True)) if sources else set()
    for row in rows:
        progress = all_progress[row.pk]
        yield ExperimentSchema(
            id=row.pk,
            question=row.question,
            notes=row.notes,
            tags=list(row.tags),
            state=progress.status.text,
            is_draft=row.is_draft,
            is_alive=not row.is_draft and progress.tally.alive,
            cluster=str(row.cluster),
            partition=row.partition.name if row.partition else None,
            owner=str(row.owner),
            visibility=row.visibility,
            scales=list(row.scales),
            repeats=row.repeats,
            margin=row.margin,
            design=row.design,
            primary_metric=row.primary_metric,
            runs=dict(sorted(progress.tally.states.items())),
            verdicts=all_verdicts.get(row.pk, {}),
            created_at=row.created_at,
            launched_at=row.launched_at,
            plan_hash=row.plan_hash,
            copied_from=row.copied_from_id if row.copied_from_id in known else None,
            page=row.get_absolute_url(),
        )


def find_experiment(request: ApiRequest, pk: int) -> Experiment:
    """Return the experiment, without its plan. Raises Http404 where one may not view it."""
    rows = Experiment.objects.visible_to(request.user).without_plan()
    return get_object_or_404(rows.select_related("cluster", "partition", "owner"), pk=pk)


@router.get(
    "experiments", auth=READ, response={200: ExperimentList, 401: ProblemSchema, 422: ProblemSchema}
)
def list_experiments(
    request: ApiRequest,
    filters: Query[ExperimentFilters],
    limit: Annotated[int, Query(ge=1, le=MOST)] = USUAL,
    cursor: str = "",
    fields: str = "",
) -> HttpResponse:
    """List the experiments that one may view, the newest first."""
    asked = read_experiment_list(request)  # type: ignore[arg-type]
    problems = [
        FieldProblem(f"query.{name}", str(message))
        for name, messages in asked.filters.errors.items()
        for message in messages
    ]
    problems += [FieldProblem("query.where", message) for message in asked.where_problems]
    if filters.sort and asked.sort != filters.sort:
        message = f"There is no column “{filters.sort[:60]}” to sort by; there are: "
        known = ", ".join(SORTS)
        problems.append(
            FieldProblem("query.sort", f"{message}{known}, and those of runs that have a dot.")
        )
    if problems:
        detail = "Filters or an order that make no sense."
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, problems)
    unknown = (key for key in filters.column if not find_column(key, asked.offered))
    refuse_columns(unknown, [*COLUMNS, *asked.offered.keys])
    columns = asked.columns if filters.column else []

    def describe(shown: Sequence[Experiment]) -> Iterable[Schema]:
        described = describe_experiments(shown, request.user)
        return _add_columns(described, columns) if columns else described

    return send_list(
        request,
        asked.rows.select_related("cluster", "partition", "owner"),
        ListedExperimentSchema,
        describe,
        limit=limit,
        cursor=cursor,
        fields=fields,
        take_keys=asked.list_keys_after if filters.sort else None,
    )


def _add_columns(
    described: Iterable[ExperimentSchema], columns: Sequence[ExperimentColumn]
) -> Iterable[ListedExperimentSchema]:
    """Yield experiments with the values of their columns, as files have them."""
    items = list(described)
    rows = {row.pk: row for row in read_experiments([item.id for item in items], columns)}
    all_progress = measure_progress(list(rows.values()))
    for item in items:
        row = rows.get(item.id)
        values: dict[str, Any] = {}
        for column in columns:
            names = [name for name, _ in column.heads]
            written = column.write(row, all_progress[row.pk]) if row else [None] * len(names)
            values |= zip(names, written, strict=True)
        yield ListedExperimentSchema(**item.model_dump(), columns=values)


@router.get("experiments/{pk}", auth=READ, response={200: ExperimentSchema, **REFUSED})
def read_experiment(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return one experiment."""
    rows = [find_experiment(request, pk)]
    row = next(iter(describe_experiments(rows, request.user)))
    return send_row(request, row.model_dump(mode="json"))


@router.get("experiments/{pk}/events", auth=READ, response={200: EventList, **REFUSED})
def list_events(
    request: ApiRequest,
    pk: Key,
    limit: Annotated[int, Query(ge=1, le=MOST)] = USUAL,
    cursor: str = "",
    fields: str = "",
) -> HttpResponse:
    """List what happened to an experiment, the newest first."""
    rows = Event.objects.filter(experiment=find_experiment(request, pk))
    return send_list(
        request,
        rows.select_related("actor", "run"),
        EventSchema,
        lambda shown: [
            EventSchema(
                id=row.pk,
                at=row.at,
                who=row.who,
                what=row.text,
                why=row.why,
                run=row.run.uid if row.run else None,
            )
            for row in shown
        ],
        limit=limit,
        cursor=cursor,
        fields=fields,
    )
