"""The page that lists experiments, with columns of the reader's choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import F, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpResponse, HttpResponseBase, QueryDict, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.comparisons.export_limit import limit_exports
from dashboard.comparisons.refused_files import refuse_file
from dashboard.comparisons.safe_files import stream_table
from dashboard.comparisons.table_files import send_table
from dashboard.execution.experiment_columns import (
    COLUMNS,
    SORTS,
    ExperimentColumn,
    choose_columns,
    draw_cells,
)
from dashboard.execution.run_columns import shorten
from dashboard.lists import MOST_STUDIES, ExperimentFilter, make_listing, order_rows
from dashboard.typed_requests import Request
from experiments.access.permissions import filter_changeable
from experiments.comparisons import read_kept_verdicts
from experiments.comparisons.typed_tables import TypedColumn, make_table
from experiments.execution.progress import measure_progress
from experiments.models import Event, Experiment, Study, User
from experiments.models.experiment import ExperimentQuerySet

USUAL_SORT = "-created"
CHUNK = 200
"""Experiments of a file that are read at once."""


@require_safe
def experiments(request: Request) -> HttpResponse:
    """List the experiments that the reader may see."""
    filters = ExperimentFilter(request)
    columns, _ = choose_columns(request.GET.getlist("column"))
    listing = make_listing(
        request, select_experiments(request, filters), sorts=SORTS, default=USUAL_SORT
    )
    # Runs are counted of the rows shown, not of all that the filter found.
    shown = read_experiments([row.pk for row in listing.page.object_list], columns)
    all_progress = measure_progress(shown)
    chosen = {column.key for column in columns}
    context: dict[str, Any] = {
        "listing": listing,
        "filter": filters,
        "columns": [(column, SORTS.get(column.key)) for column in columns],
        "rows": [(row, draw_cells(row, all_progress[row.pk], columns)) for row in shown],
        "offered": [(column, column.key in chosen) for column in COLUMNS.values()],
        "problems": [*list_left_out(filters), *list_other_problems(request.GET)],
        "own_studies": list_own_studies(request.user),
        "shown": _drop_page(request.GET),
    }
    return render(request, "execution/list.html", context)


@require_safe
@limit_exports
def experiments_file(request: Request) -> HttpResponseBase:
    """Send the experiments of a list as a CSV file, with the columns that it shows."""
    if problems := list_problems(request, request.GET):
        return refuse_file(request, problems)
    return send_experiments(list_matching_keys(request, request.GET), request.GET)


@require_safe
@limit_exports
def experiments_parquet(request: Request) -> HttpResponseBase:
    """Send the experiments of a list as a Parquet file, with the columns that it shows."""
    if problems := list_problems(request, request.GET):
        return refuse_file(request, problems)
    columns, _ = choose_columns(request.GET.getlist("column"))
    heads = [TypedColumn("experiment", "whole"), TypedColumn("question")]
    heads += [TypedColumn(column.key, column.kind) for column in columns]
    names = [head.name for head in heads]
    lines = _list_lines(list_matching_keys(request, request.GET), columns)
    rows = (
        {name: None if value == "" else value for name, value in zip(names, line, strict=True)}
        for line in lines
    )
    table = make_table(heads, rows)
    return send_table(table, request.user, "parquet", "experiments")


def list_matching_keys(request: Request, query: QueryDict) -> list[int]:
    """Return the keys of all experiments that fit the filters of an address, in its order."""
    given = query.get("sort", USUAL_SORT)
    sort = given if given.removeprefix("-") in SORTS else USUAL_SORT
    path = SORTS[sort.removeprefix("-")]
    rows = select_experiments(request, ExperimentFilter(request, query=query))
    ordered = order_rows(rows, F(path), path, descending=sort.startswith("-"))
    return list(ordered.values_list("pk", flat=True))


def list_problems(request: Request, query: QueryDict) -> list[str]:
    """Return a sentence for each filter, column and order of an address that makes no sense."""
    return [
        *list_left_out(ExperimentFilter(request, query=query)),
        *list_other_problems(query),
    ]


def list_left_out(filters: ExperimentFilter) -> list[str]:
    """Return a sentence for each filter of an address that the list leaves out."""
    return [
        f"The filter “{name}={shorten(filters.query.get(name, ''))}” is left out: {errors[0]}"
        for name, errors in filters.errors.items()
    ]


def list_other_problems(query: QueryDict) -> list[str]:
    """Return a sentence for each column that there is not, to show or to sort by."""
    _, problems = choose_columns(query.getlist("column"))
    sort = query.get("sort", USUAL_SORT)
    if sort.removeprefix("-") not in SORTS:
        problems.append(f"There is no column “{shorten(sort)}” to sort by.")
    return problems


def send_experiments(keys: Sequence[int], query: QueryDict) -> StreamingHttpResponse:
    """Return a CSV file of the experiments of these keys, with the columns of an address.

    The keys are of experiments that the reader may see.
    """
    columns, _ = choose_columns(query.getlist("column"))
    heads = ["experiment", "question", *(column.key for column in columns)]
    return stream_table(heads, _list_lines(keys, columns), "tare-experiments.csv")


def _list_lines(keys: Sequence[int], columns: Sequence[ExperimentColumn]) -> Iterator[list[Any]]:
    for start in range(0, len(keys), CHUNK):
        rows = read_experiments(keys[start : start + CHUNK], columns)
        all_progress = measure_progress(rows)
        for row in rows:
            values = [column.read(row, all_progress[row.pk]) for column in columns]
            yield [row.pk, row.question, *values]


def select_experiments(request: Request, filters: ExperimentFilter) -> ExperimentQuerySet:
    """Return the experiments that fit the filters, with what they may be sorted by."""
    visible = filters.apply(Experiment.objects.visible_to(request.user)).dated().without_plan()
    return visible.alias(
        changed_at=_find_last_change(),
        repeats_with_added=F("repeats") + Coalesce("extended_repeats", 0),
    )


def _find_last_change() -> Subquery:
    events = Event.objects.filter(experiment=OuterRef("pk")).order_by("-at", "-pk")
    return Subquery(events.values("at")[:1])


def read_experiments(keys: Sequence[int], columns: Sequence[ExperimentColumn]) -> list[Experiment]:
    """Return the experiments of these keys, in their order, with what the columns show."""
    rows: Any = Experiment.objects.without_plan().select_related("cluster", "owner", "baseline")
    chosen = {column.key for column in columns}
    if "changed" in chosen:
        rows = rows.annotate(changed_at=_find_last_change())
    rows = rows.prefetch_related(*sorted({"workloads", "environments"} & chosen))
    by_key = rows.in_bulk(keys)
    experiments = [by_key[key] for key in keys if key in by_key]
    if "verdicts" in chosen:
        all_verdicts = read_kept_verdicts(experiments)
        for experiment in experiments:
            experiment.kept_verdicts = all_verdicts.get(experiment.pk, {})
    return experiments


def list_own_studies(user: User) -> list[Study]:
    """Return the newest studies into which a person may put experiments."""
    return list(filter_changeable(user, Study.objects.visible_to(user))[:MOST_STUDIES])


def _drop_page(query: QueryDict) -> str:
    kept = query.copy()
    kept.pop("page", None)
    return kept.urlencode()
