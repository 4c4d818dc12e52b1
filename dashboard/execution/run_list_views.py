"""The page that lists runs, with columns of the reader's choice."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, HttpResponseBase, QueryDict, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from dashboard.comparisons.export_limit import limit_exports
from dashboard.comparisons.refused_files import refuse_file
from dashboard.comparisons.safe_files import stream_table
from dashboard.comparisons.table_files import send_table
from dashboard.execution.column_menus import draw_menus
from dashboard.execution.list_forms import OPERATORS, read_typed
from dashboard.execution.run_cells import draw_table, write_cells, write_heads
from dashboard.execution.run_list_tables import make_list_table
from dashboard.execution.run_listing import RunList, keep_state, read_run_list
from dashboard.lists import Listing
from dashboard.typed_requests import Request
from experiments.models import SavedView


@require_safe
def runs(request: Request) -> HttpResponse:
    """List the runs of the experiments that the reader may see."""
    if typed := read_typed(request.GET, keep_state(request.GET)):
        return redirect(f"{request.path}?{typed.urlencode()}")
    run_list = read_run_list(request)
    page = run_list.get_page()
    heads, rows = draw_table(list(page.object_list), run_list.columns)
    column_groups, other_options = draw_menus(run_list.offered, run_list.columns)
    context: dict[str, Any] = {
        "listing": Listing(page, run_list.sort),
        "list": run_list,
        "filter": {"is_active": run_list.is_filtered},
        "heads": heads,
        "rows": rows,
        "chips": _list_chips(run_list),
        "hidden": [
            (name, value)
            for name, values in keep_state(request.GET).lists()
            for value in values
            if value
        ],
        "saved_page": SavedView.Page.RUNS,
        "state": keep_state(request.GET).urlencode(),
        "views": list(SavedView.objects.filter(owner=request.user, page=SavedView.Page.RUNS)),
        "operators": OPERATORS,
        "column_groups": column_groups,
        "other_options": other_options,
        "shown": keep_state(request.GET).urlencode(),
        "usual": _leave_out(request.GET, "column"),
    }
    return render(request, "execution/runs/list.html", context)


@require_safe
@limit_exports
def runs_file(request: Request) -> HttpResponseBase:
    """Send the runs of a list as a CSV file, with the columns that it shows."""
    run_list = read_run_list(request)
    if run_list.problems:
        return refuse_file(request, run_list.problems)
    return send_runs(run_list)


@require_safe
@limit_exports
def runs_parquet(request: Request) -> HttpResponseBase:
    """Send the runs of a list as a Parquet file, with the columns that it shows."""
    run_list = read_run_list(request)
    if run_list.problems:
        return refuse_file(request, run_list.problems)
    return send_table(make_list_table(run_list), request.user, "parquet", "runs")


def send_runs(run_list: RunList) -> StreamingHttpResponse:
    """Return a CSV file of the runs of a list, with its columns."""
    rows = run_list.runs.iterate()
    units = run_list.list_units()
    columns = [(column, units.get(column.key, [])) for column in run_list.columns]
    heads = [head for column, its_units in columns for head in write_heads(column, its_units)]
    table = (
        [
            row.fields["uid"],
            *(
                cell
                for column, its_units in columns
                for cell in write_cells(column, row, its_units)
            ),
        ]
        for row in rows
    )
    return stream_table(["run", *heads], table, "tare-runs.csv")


def _list_chips(run_list: RunList) -> list[tuple[str, str, str]]:
    """Return a label, its text and the address without it for each filter."""
    chips = [(row.column.label, row.text, row.query) for row in run_list.conditions]
    chips += [("Tag", tag, ("tag", tag)) for tag in run_list.tags]
    if text := {"only": "yes", "all": "yes or no"}.get(run_list.archived):
        chips.append(("Archived", text, ("archived", run_list.archived)))
    return [(label, text, _leave_out(run_list.query, *query)) for label, text, query in chips]


def _leave_out(query: QueryDict, name: str, text: str = "") -> str:
    """Return the address's query without one of its filters, or without a name altogether."""
    kept = keep_state(query)
    kept.setlist(name, [value for value in kept.getlist(name) if text and value != text])
    return kept.urlencode()
