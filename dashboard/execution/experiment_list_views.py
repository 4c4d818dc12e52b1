"""The page that lists experiments, with columns of the reader's choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.http import (
    HttpResponse,
    HttpResponseBase,
    QueryDict,
    StreamingHttpResponse,
)
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from dashboard.comparisons.export_limit import limit_exports
from dashboard.comparisons.refused_files import refuse_file
from dashboard.comparisons.safe_files import stream_table
from dashboard.comparisons.table_files import send_table
from dashboard.execution.column_menus import draw_menus
from dashboard.execution.experiment_columns import COLUMNS, SORTS, ExperimentColumn, draw_cells
from dashboard.execution.experiment_listing import (
    ExperimentList,
    keep_state,
    read_experiment_list,
    read_experiments,
)
from dashboard.execution.list_forms import OPERATORS, read_typed
from dashboard.lists import MOST_STUDIES, Listing
from dashboard.typed_requests import Request
from experiments.access.permissions import filter_changeable
from experiments.comparisons.typed_tables import TypedColumn, make_table
from experiments.execution.progress import measure_progress
from experiments.models import SavedView, Study, User

CHUNK = 200
"""Experiments of a file that are read at once."""


@require_safe
def experiments(request: Request) -> HttpResponse:
    """List the experiments that the reader may see."""
    if typed := read_typed(request.GET, keep_state(request.GET)):
        return redirect(f"{request.path}?{typed.urlencode()}")
    asked = read_experiment_list(request, offers_all=True)
    columns = asked.columns
    page = asked.get_page(request.GET.get("page"))
    # Runs are counted of the rows shown, not of all that the filter found.
    shown = read_experiments(list(page.object_list), columns, asked)
    all_progress = measure_progress(shown)
    chosen = {column.key for column in columns}
    of_runs = [column.of_runs for column in columns if column.of_runs]
    column_groups, other_options = draw_menus(asked.offered, of_runs)
    context: dict[str, Any] = {
        "listing": Listing(page, asked.sort),
        "filter": asked.filters,
        "columns": [(column, column.of_runs or SORTS.get(column.key)) for column in columns],
        "rows": [(row, draw_cells(row, all_progress[row.pk], columns)) for row in shown],
        "offered": [(column, column.key in chosen) for column in COLUMNS.values()],
        "column_groups": column_groups,
        "other_options": other_options,
        "operators": OPERATORS,
        "problems": asked.problems,
        "own_studies": list_own_studies(request.user),
        "shown": _drop_page(request.GET),
        "state": keep_state(request.GET).urlencode(),
        "saved_page": SavedView.Page.EXPERIMENTS,
        "views": list(
            SavedView.objects.filter(owner=request.user, page=SavedView.Page.EXPERIMENTS)
        ),
    }
    return render(request, "execution/list.html", context)


@require_safe
@limit_exports
def experiments_file(request: Request) -> HttpResponseBase:
    """Send the experiments of a list as a CSV file, with the columns that it shows."""
    asked = read_experiment_list(request)
    if asked.problems:
        return refuse_file(request, asked.problems)
    return send_experiments(asked.list_keys(), asked)


@require_safe
@limit_exports
def experiments_parquet(request: Request) -> HttpResponseBase:
    """Send the experiments of a list as a Parquet file, with the columns that it shows."""
    asked = read_experiment_list(request)
    if asked.problems:
        return refuse_file(request, asked.problems)
    heads = [TypedColumn("experiment", "whole"), TypedColumn("question")]
    heads += [TypedColumn(*head) for column in asked.columns for head in column.heads]
    names = [head.name for head in heads]
    lines = _list_lines(asked.list_keys(), asked.columns)
    rows = (
        {name: None if value == "" else value for name, value in zip(names, line, strict=True)}
        for line in lines
    )
    table = make_table(heads, rows)
    return send_table(table, request.user, "parquet", "experiments")


def send_experiments(keys: Sequence[int], asked: ExperimentList) -> StreamingHttpResponse:
    """Return a CSV file of the experiments of these keys, with the columns of a list.

    The keys are of experiments that the reader may see.
    """
    names = [name for column in asked.columns for name, _ in column.heads]
    lines = _list_lines(keys, asked.columns)
    return stream_table(["experiment", "question", *names], lines, "tare-experiments.csv")


def _list_lines(keys: Sequence[int], columns: Sequence[ExperimentColumn]) -> Iterator[list[Any]]:
    for start in range(0, len(keys), CHUNK):
        rows = read_experiments(keys[start : start + CHUNK], columns)
        all_progress = measure_progress(rows)
        for row in rows:
            progress = all_progress[row.pk]
            values = [value for column in columns for value in column.write(row, progress)]
            yield [row.pk, row.question, *values]


def list_own_studies(user: User) -> list[Study]:
    """Return the newest studies into which a person may put experiments."""
    return list(filter_changeable(user, Study.objects.visible_to(user))[:MOST_STUDIES])


def _drop_page(query: QueryDict) -> str:
    kept = query.copy()
    kept.pop("page", None)
    return kept.urlencode()
