"""Exports of comparisons and runs: every number of a page can be recomputed from them."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponse, HttpResponseBase
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from dashboard.access.rights import by_link, get_readable, get_readable_table
from dashboard.comparisons.export_limit import limit_exports
from dashboard.comparisons.extension_in_methods import list_extension_facts
from dashboard.comparisons.panel_base import Rows
from dashboard.comparisons.panels import collect_csv_rows, collect_exported_rows, latex_file
from dashboard.comparisons.safe_files import (
    make_file_name,
    make_json_number,
    make_json_response,
    make_safe_table,
    stream_csv,
)
from dashboard.comparisons.table_files import Ending, send_table
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import (
    Comparison,
    ExperimentComparison,
    describe_source,
    list_run_rows,
    make_measurements_table,
    make_runs_table,
    make_series_table,
    read_comparison,
)
from experiments.comparisons.comparison import put_newer_columns_last
from experiments.comparisons.comparison_keys import identify_method
from experiments.comparisons.published_tables import TableComparison, compare_published
from experiments.comparisons.typed_tables import infer_columns, make_table
from experiments.execution.progress import measure_progress
from experiments.models import Experiment, PublishedTable
from experiments.planning.decisive_metrics import freeze_metrics
from experiments.statistics.interim_analyses import get_level, schedule
from experiments.statistics.published.printed import TableError

NO_RESULTS = "There are no results to compare."


@by_link
@require_safe
def comparison_csv(request: OpenRequest, pk: int) -> HttpResponseBase:
    """Send the experiment's comparison as a CSV file."""
    comparison = read_comparison(get_readable(request, pk))
    return _csv(comparison, waiting=comparison.stage.waiting)


@by_link
@require_safe
@limit_exports
def comparison_json(request: OpenRequest, pk: int) -> HttpResponseBase:
    """Send the experiment's comparison as a JSON file."""
    experiment = get_readable(request, pk)
    comparison = read_comparison(experiment)
    return _json(comparison, describe_comparison(experiment, comparison))


def describe_comparison(experiment: Experiment, comparison: ExperimentComparison) -> dict[str, Any]:
    """Return what the JSON file says beside the rows of results: the plan, and what is missing."""
    return {
        "experiment": _about(experiment),
        "waiting": comparison.stage.waiting,
        "left_out": comparison.left_out,
        "unsteady": [
            {**group.configuration, "sentence": group.unsteady}
            for group in comparison.unsteady_groups
        ],
    }


@by_link
@require_safe
def comparison_tex(request: OpenRequest, pk: int) -> HttpResponseBase:
    """Send the experiment's comparison as a LaTeX table."""
    return _tex(read_comparison(get_readable(request, pk)))


@by_link
@require_safe
@limit_exports
def comparison_parquet(request: OpenRequest, pk: int) -> HttpResponseBase:
    """Send the experiment's comparison as a Parquet file."""
    experiment = get_readable(request, pk)
    comparison = read_comparison(experiment)
    facts = describe_source(experiment)
    return _parquet(request, comparison, facts, waiting=comparison.stage.waiting)


@by_link
@require_safe
def table_csv(request: OpenRequest, pk: int) -> HttpResponseBase:
    """Send the comparison of a published table as a CSV file."""
    return _csv(_comparison_of(request, pk))


@by_link
@require_safe
def table_json(request: OpenRequest, pk: int) -> HttpResponseBase:
    """Send the comparison of a published table as a JSON file."""
    comparison = _comparison_of(request, pk)
    return _json(comparison, describe_table(comparison))


def describe_table(comparison: TableComparison) -> dict[str, Any]:
    """Return what the JSON file of a table says beside the rows of results."""
    return {"table": _about_table(comparison.row), "left_out": comparison.left_out}


@by_link
@require_safe
@limit_exports
def table_parquet(request: OpenRequest, pk: int) -> HttpResponseBase:
    """Send the comparison of a published table as a Parquet file."""
    comparison = _comparison_of(request, pk)
    row = comparison.row
    facts = {"question": row.question, "source": row.source, "margin": repr(row.margin)}
    return _parquet(request, comparison, {**facts, "method": identify_method()})


@by_link
@require_safe
def table_tex(request: OpenRequest, pk: int) -> HttpResponseBase:
    """Send the comparison of a published table as a LaTeX table."""
    return _tex(_comparison_of(request, pk))


@by_link
@require_safe
def table_text(request: OpenRequest, pk: int) -> HttpResponseBase:
    """Send the text of a published table, with cells that a spreadsheet would run made safe.

    The JSON export has the text unchanged.
    """
    row = get_readable_table(request, pk)
    return _file(make_safe_table(row.text), "text/csv", make_file_name(row, "table", ".csv"))


@by_link
@require_safe
@limit_exports
def runs_csv(request: OpenRequest, pk: int) -> HttpResponseBase:
    """Send all runs of the experiment with their measurements as a CSV file."""
    experiment = get_readable(request, pk)
    return stream_csv(list_run_rows(experiment), make_file_name(experiment, "runs", ".csv"))


@by_link
@require_safe
@limit_exports
def runs_json(request: OpenRequest, pk: int) -> HttpResponseBase:
    """Send all runs of the experiment with their measurements as a JSON file."""
    experiment = get_readable(request, pk)
    runs = [
        {name: make_json_number(value) for name, value in row.items()}
        for row in list_run_rows(experiment)
    ]
    content = {"experiment": _about(experiment), "runs": runs}
    return make_json_response(content, make_file_name(experiment, "runs", ".json"))


@by_link
@require_safe
@limit_exports
def runs_parquet(request: OpenRequest, pk: int) -> HttpResponseBase:
    """Send all runs of the experiment with their measurements as a Parquet file."""
    experiment = get_readable(request, pk)
    table = make_runs_table(experiment)
    return send_table(table, request.user, "parquet", "runs", experiment)


@by_link
@require_safe
@limit_exports
def measurements(request: OpenRequest, pk: int, ending: Ending) -> HttpResponseBase:
    """Send the measurements of all runs of the experiment, a row for each."""
    experiment = get_readable(request, pk)
    table = make_measurements_table(experiment)
    return send_table(table, request.user, ending, "measurements", experiment)


@by_link
@require_safe
@limit_exports
def series(request: OpenRequest, pk: int, ending: Ending) -> HttpResponseBase:
    """Send what all runs of the experiment recorded step by step, a row for each step."""
    experiment = get_readable(request, pk)
    table = make_series_table(experiment)
    return send_table(table, request.user, ending, "series", experiment)


def _comparison_of(request: OpenRequest, pk: int) -> TableComparison:
    """Return the comparison of a table; Http404 if the table cannot be read any more."""
    try:
        return compare_published(get_readable_table(request, pk))
    except TableError as error:
        raise Http404(str(error)) from error


def _csv(comparison: Comparison, *, waiting: str = "") -> HttpResponseBase:
    rows = _list_rows(comparison, waiting)
    return stream_csv(rows, make_file_name(comparison, "comparison", ".csv"))


def _parquet(
    request: OpenRequest, comparison: Comparison, facts: dict[str, str], *, waiting: str = ""
) -> HttpResponseBase:
    rows = _list_rows(comparison, waiting)
    table = make_table(infer_columns(rows), rows, facts)
    return send_table(table, request.user, "parquet", "comparison", comparison)


def _list_rows(comparison: Comparison, waiting: str) -> Rows:
    """Return the rows of a file; before any result one row that says when there will be some."""
    rows = put_newer_columns_last(collect_csv_rows(comparison))
    return rows or [{**comparison.about, "waiting": waiting or NO_RESULTS}]


def _json(comparison: Comparison, about: dict[str, Any]) -> HttpResponseBase:
    return make_json_response(
        about | collect_exported_rows(comparison), make_file_name(comparison, "comparison", ".json")
    )


def _tex(comparison: Comparison) -> HttpResponseBase:
    name = make_file_name(comparison, "comparison", ".tex")
    return _file(latex_file(comparison), "application/x-tex", name)


def _file(text: str, kind: str, name: str) -> HttpResponseBase:
    answer = HttpResponse(text, content_type=f"{kind}; charset=utf-8")
    answer["Content-Disposition"] = content_disposition_header(True, name)
    return answer


def _about(experiment: Experiment) -> dict[str, Any]:
    """Return the definition of the experiment, which explains the exported rows."""
    progress = measure_progress([experiment])[experiment.pk]
    return {
        "question": experiment.question,
        "state": progress.status.text,
        "runs_by_state": dict(sorted(progress.tally.states.items())),
        "launched_at": experiment.launched_at,
        "plan_hash": experiment.plan_hash,
        "order_seed": experiment.order_seed,
        "margin": experiment.margin,
        "goal": experiment.goal,
        "margin_faster": experiment.margin_faster,
        **experiment.training_margins,
        **freeze_metrics(experiment),
        "estimand": experiment.estimand,
        "one_block_a_node": experiment.spreads_nodes,
        "looks_after_repeats": schedule(experiment.repeats, experiment.looks),
        "level_of_each_look": get_level(experiment.looks),
        "stopped_at_look": experiment.stopped_at_look,
        "plan": experiment.plan,
        "extension": list_extension_facts(experiment),
        "imported_at": experiment.imported_at,
        "imported_from": experiment.imported_from,
        "sha256_of_logs": experiment.import_hash,
    }


def _about_table(row: PublishedTable) -> dict[str, Any]:
    """Return the table itself and how it was read: from these the comparison is recomputed."""
    return {
        "question": row.question,
        "source": row.source,
        "baseline": row.baseline,
        "margin": row.margin,
        "reading": row.reading,
        "text": row.text,
    }
