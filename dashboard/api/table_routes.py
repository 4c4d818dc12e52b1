"""Published tables by the API: kept as they were given, and compared whenever they are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from ninja import Field, Query, Schema

from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.form_bodies import INVALID, NO_GROUPS, list_form_problems
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.list_parts import MOST, USUAL, send_list, send_row
from dashboard.api.problems import (
    FieldProblem,
    FieldProblemSchema,
    Problem,
    ProblemSchema,
    refusals_as_conflicts,
    refuse,
)
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import EXPERIMENTS, READ
from dashboard.api.visibility_changes import VisibilityChange, choose_visibility
from dashboard.comparisons.export_views import describe_table
from dashboard.comparisons.panels import collect_exported_rows
from dashboard.comparisons.table_forms import TableForm
from experiments.access import audit
from experiments.access.permissions import why_not_add, why_not_change
from experiments.comparisons.published_tables import (
    MOST_BYTES,
    TableComparison,
    compare_published,
    load_reading,
)
from experiments.models import PublishedTable
from experiments.presets.known_tables import KNOWN_TABLES, fill_in
from experiments.statistics.published.columns import ROLES
from experiments.statistics.published.printed import TableError

router = Router(tags=["Published tables"])
Margin = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Text = Annotated[str, Field(max_length=MOST_BYTES)]
Role = Annotated[str, Field(description="A role of columns, such as mean.")]
TOO_LARGE = f"A table has at most {MOST_BYTES:,} bytes. A table of results has one row a run."


class TableItemSchema(Schema):
    """A published table, without its text."""

    id: int
    question: str
    source: str
    baseline: str
    margin: float
    owner: str
    visibility: str
    created_at: datetime
    page: str


class TableSchema(TableItemSchema):
    """A published table, and how it is read."""

    text: str
    reading: dict[str, Any]


class TableList(Schema):
    """A part of the list of published tables."""

    items: list[TableItemSchema]
    next: str | None


class KnownTableSchema(Schema):
    """A table of a published study."""

    key: str
    title: str
    place: str = Field(description="Where it stands in the study.")
    table: dict[str, Any] = Field(description="What to send to `tables` so that it is compared.")


class KnownTableList(Schema):
    """All tables of published studies that Tare knows."""

    items: list[KnownTableSchema]


class TableComparisonSchema(Schema):
    """The comparison of a published table, row by row."""

    table: dict[str, Any]
    left_out: list[str]
    comparison: list[dict[str, Any]]


class TableCheck(Schema):
    """How a table would be read."""

    valid: bool
    problems: list[FieldProblemSchema]
    question: str
    environments: list[str]
    baseline: str
    columns: dict[str, str]
    summary: str
    understood: list[str]
    missing: str
    left_out: list[str]


class TableChange(VisibilityChange):
    """What is to be another; what is not sent stays."""

    text: Text | None = Field(None, description="The first row names the columns.")
    question: str | None = Field(None, description="Empty: it is made from the environments.")
    source: str | None = Field(None, description="Where it was published.")
    baseline: str | None = Field(None, description="The name of an environment.")
    margin: Margin | None = Field(None, description="A fraction, such as 0.02.")
    unit: str | None = None
    better: Literal["", "lower", "higher"] | None = None
    n: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    decimal: Literal["", "point", "comma"] | None = None
    roles: dict[str, Role] | None = Field(
        None, description="The name of a column: its role, where its name does not tell it."
    )


class NewTable(TableChange):
    """A table to be compared."""

    text: Text = Field(min_length=1, description="The first row names the columns.")


def _select(request: ApiRequest) -> Any:
    return PublishedTable.objects.visible_to(request.user).select_related("owner")


def _describe_items(rows: Sequence[PublishedTable]) -> Iterable[TableItemSchema]:
    return (TableItemSchema(**_list_facts(row)) for row in rows)


def _list_facts(row: PublishedTable) -> dict[str, Any]:
    names = TableItemSchema.model_fields.keys() - {"id", "owner", "page"}
    facts = {name: getattr(row, name) for name in names}
    return facts | {"id": row.pk, "owner": str(row.owner), "page": row.get_absolute_url()}


@router.get("tables", auth=READ, response={200: TableList, 401: ProblemSchema, 422: ProblemSchema})
def list_tables(
    request: ApiRequest,
    limit: Annotated[int, Query(ge=1, le=MOST)] = USUAL,
    cursor: str = "",
    fields: str = "",
) -> HttpResponse:
    """List the published tables that one may view, the newest first."""
    rows = _select(request).defer("text")
    return send_list(
        request, rows, TableItemSchema, _describe_items, limit=limit, cursor=cursor, fields=fields
    )


@router.get("known-tables", auth=READ, response={200: KnownTableList, **REFUSED})
def list_known_tables(request: ApiRequest) -> HttpResponse:
    """List the tables of the studies that the presets repeat, ready to be sent to `tables`."""
    refuse(why_not_add(request.user, PublishedTable))
    items = [
        KnownTableSchema(
            key=known.key,
            title=known.title,
            place=known.source,
            table={
                "text": known.text,
                "question": known.question,
                "source": fill_in(known, request.user).source,
                "baseline": known.baseline,
                "roles": dict(known.roles),
            },
        )
        for known in KNOWN_TABLES.values()
    ]
    return send_row(request, KnownTableList(items=items).model_dump(mode="json"))


@router.get("tables/{pk}", auth=READ, response={200: TableSchema, **REFUSED})
def read_table(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return a published table with its text."""
    row = get_object_or_404(_select(request), pk=pk)
    described = TableSchema(**_list_facts(row), text=row.text, reading=row.reading)
    return send_row(request, described.model_dump(mode="json"))


def find_compared_table(request: ApiRequest, pk: int) -> TableComparison:
    """Return a table with its comparison. Raises Http404; Problem 409 if it cannot be compared."""
    row = get_object_or_404(_select(request), pk=pk)
    with refusals_as_conflicts(TableError):
        return compare_published(row)


@router.get(
    "tables/{pk}/comparison",
    auth=READ,
    response={200: TableComparisonSchema, 409: ProblemSchema, **REFUSED},
)
def read_table_comparison(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return the comparison of a published table."""
    comparison = find_compared_table(request, pk)
    return send_row(request, describe_table(comparison) | collect_exported_rows(comparison))


@router.post(
    "tables/check",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={200: TableCheck, 422: ProblemSchema, **REFUSED},
)
def check_table(request: ApiRequest, table: NewTable) -> TableCheck:
    """Say how a table would be read, and what stands against its comparison; nothing is stored."""
    refuse(why_not_add(request.user, PublishedTable))
    form = _make_form(request, PublishedTable(owner=request.user), table)
    form.is_valid()
    problems, preview = _list_problems(form, table), form.preview
    return TableCheck(
        valid=not problems,
        problems=[vars(row) for row in problems],  # type: ignore[misc]
        question=form.cleaned_data.get("question") or "",
        environments=preview.environments,
        baseline=preview.baseline,
        columns={column.name: column.role for column in preview.columns},
        summary=preview.summary,
        understood=preview.understood,
        missing=preview.missing,
        left_out=preview.left_out,
    )


@router.post(
    "tables",
    auth=EXPERIMENTS,
    throttle=HEAVY,
    response={201: TableSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
def make_table(request: ApiRequest, table: NewTable) -> HttpResponse:
    """Keep a published table."""
    refuse(why_not_add(request.user, PublishedTable))
    row = PublishedTable(owner=request.user)
    _save(request, row, table)
    answer = read_table(request, row.pk)
    answer.status_code = HTTPStatus.CREATED
    answer["Location"] = reverse("api:read_table", args=[row.pk])
    return answer


@router.patch(
    "tables/{pk}",
    auth=EXPERIMENTS,
    response={200: TableSchema, 422: ProblemSchema, **REFUSED},
)
def change_table(request: ApiRequest, pk: Key, change: TableChange) -> HttpResponse:
    """Change a published table, how it is read, or who may view it; all of it, or nothing."""
    _save(request, find_own_table(request, pk), change)
    return read_table(request, pk)


@router.delete("tables/{pk}", auth=EXPERIMENTS, response={204: None, **REFUSED})
def delete_table(request: ApiRequest, pk: Key) -> HttpResponse:
    """Delete a published table."""
    audit.delete(request.user, find_own_table(request, pk))
    return HttpResponse(status=HTTPStatus.NO_CONTENT)


def find_own_table(request: ApiRequest, pk: int) -> PublishedTable:
    """Return a table that one may change. Raises Http404 or Problem 403."""
    row: PublishedTable = get_object_or_404(_select(request), pk=pk)
    refuse(why_not_change(request.user, row))
    return row


def _save(request: ApiRequest, row: PublishedTable, change: TableChange) -> None:
    form = _make_form(request, row, change)
    form.is_valid()
    if problems := _list_problems(form, change):
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)
    with audit.log_change(request.user, row):
        form.save()


def _make_form(request: ApiRequest, row: PublishedTable, change: TableChange) -> TableForm:
    """Return the form of the page, filled in with the row and what is to be another."""
    reading = load_reading(row.reading)
    values: dict[str, Any] = {
        name: getattr(row, name) for name in ("text", "question", "source", "baseline", "margin")
    }
    values |= {name: getattr(reading, name) for name in ("unit", "better", "n", "decimal")}
    values |= choose_visibility(row, change)
    values["roles"] = dict(reading.roles)
    sent = change.model_dump(exclude_none=True)
    data = {name: sent.get(name, value) for name, value in values.items()}
    roles = data.pop("roles")
    # The page sends the role of each column beside its name; those of no column are refused.
    for number, (name, role) in enumerate(roles.items()):
        data |= {f"name-{number}": name, f"role-{number}": role, f"shown-{number}": ""}
    data["margin"] = f"{data['margin'] * 100:.10g}"
    data["said"] = json.dumps(roles)
    return TableForm(data, instance=row, user=request.user)


def _list_problems(form: TableForm, change: TableChange) -> list[FieldProblem]:
    problems = list_form_problems(form)
    if len(form.table_text.encode()) > MOST_BYTES:
        problems.append(FieldProblem("text", TOO_LARGE))
    if change.groups and "groups" not in form.fields:
        problems.append(FieldProblem("groups", NO_GROUPS))
    columns = [column.name for column in form.preview.columns]
    for name, role in (change.roles or {}).items():
        if role not in ROLES:
            known = ", ".join(ROLES)
            problems.append(FieldProblem(f"roles.{name[:50]}", f"Roles are: {known}."))
        elif columns and name not in columns:
            known = ", ".join(columns)
            problems.append(FieldProblem(f"roles.{name[:50]}", f"The columns are: {known}."))
    if change.baseline and not problems and change.baseline != form.preview.baseline:
        known = ", ".join(form.preview.environments)
        problems.append(FieldProblem("baseline", f"The environments are: {known}."))
    return problems
