"""The numbers of a comparison as files: from them every one on a page can be recomputed."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponse, HttpResponseBase
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET

from dashboard.access.rights import by_link, readable, readable_table
from dashboard.comparisons.panels import csv_rows, exported_rows, latex_file
from dashboard.comparisons.safe_files import as_csv, as_json, file_name, safe_table
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import Comparison, compare_experiment, run_rows
from experiments.comparisons.published_tables import TableComparison, compare_published
from experiments.execution.progress import progress_of
from experiments.models import Experiment, PublishedTable
from experiments.statistics.interim_analyses import level, schedule
from experiments.statistics.published.printed import TableError


@by_link
@require_GET
def comparison_csv(request: OpenRequest, pk: int) -> HttpResponseBase:
    comparison = compare_experiment(readable(request, pk))
    return _csv(comparison, waiting=comparison.stage.waiting)


@by_link
@require_GET
def comparison_json(request: OpenRequest, pk: int) -> HttpResponseBase:
    experiment = readable(request, pk)
    comparison = compare_experiment(experiment)
    about = {
        "experiment": _about(experiment),
        "waiting": comparison.stage.waiting,
        "left_out": comparison.left_out,
    }
    return _json(comparison, about)


@by_link
@require_GET
def comparison_tex(request: OpenRequest, pk: int) -> HttpResponseBase:
    return _tex(compare_experiment(readable(request, pk)))


@by_link
@require_GET
def table_csv(request: OpenRequest, pk: int) -> HttpResponseBase:
    return _csv(_comparison_of(request, pk))


@by_link
@require_GET
def table_json(request: OpenRequest, pk: int) -> HttpResponseBase:
    comparison = _comparison_of(request, pk)
    about = {"table": _about_table(comparison.row), "left_out": comparison.left_out}
    return _json(comparison, about)


@by_link
@require_GET
def table_tex(request: OpenRequest, pk: int) -> HttpResponseBase:
    return _tex(_comparison_of(request, pk))


@by_link
@require_GET
def table_text(request: OpenRequest, pk: int) -> HttpResponseBase:
    """Return the table as it was given, but that no cell of it is run as a formula.

    Character for character it stands in the JSON export.
    """
    row = readable_table(request, pk)
    return _file(safe_table(row.text), "text/csv", file_name(row, "table", ".csv"))


@by_link
@require_GET
def runs_csv(request: OpenRequest, pk: int) -> HttpResponseBase:
    experiment = readable(request, pk)
    return as_csv(run_rows(experiment), file_name(experiment, "runs", ".csv"))


@by_link
@require_GET
def runs_json(request: OpenRequest, pk: int) -> HttpResponseBase:
    experiment = readable(request, pk)
    content = {"experiment": _about(experiment), "runs": list(run_rows(experiment))}
    return as_json(content, file_name(experiment, "runs", ".json"))


def _comparison_of(request: OpenRequest, pk: int) -> TableComparison:
    """Of a table. Raises Http404 where its page says why it cannot be read any more."""
    try:
        return compare_published(readable_table(request, pk))
    except TableError as error:
        raise Http404(str(error)) from error


def _csv(comparison: Comparison, *, waiting: str = "") -> HttpResponseBase:
    """Return all that is compared; before there is anything, one row that says when it comes."""
    rows = csv_rows(comparison)
    if waiting and not rows:
        rows = [{**comparison.about, "waiting": waiting}]
    return as_csv(rows, file_name(comparison, "comparison", ".csv"))


def _json(comparison: Comparison, about: dict[str, Any]) -> HttpResponseBase:
    return as_json(about | exported_rows(comparison), file_name(comparison, "comparison", ".json"))


def _tex(comparison: Comparison) -> HttpResponseBase:
    name = file_name(comparison, "comparison", ".tex")
    return _file(latex_file(comparison), "application/x-tex", name)


def _file(text: str, kind: str, name: str) -> HttpResponseBase:
    answer = HttpResponse(text, content_type=f"{kind}; charset=utf-8")
    answer["Content-Disposition"] = content_disposition_header(True, name)
    return answer


def _about(experiment: Experiment) -> dict[str, Any]:
    """Return the definition with its hash: what the rows are to be read with."""
    progress = progress_of([experiment])[experiment.pk]
    return {
        "question": experiment.question,
        "state": progress.status.text,
        "runs_by_state": dict(sorted(progress.tally.states.items())),
        "launched_at": experiment.launched_at,
        "plan_hash": experiment.plan_hash,
        "order_seed": experiment.order_seed,
        "margin": experiment.margin,
        "looks_after_repeats": schedule(experiment.repeats, experiment.looks),
        "level_of_each_look": level(experiment.looks),
        "stopped_at_look": experiment.stopped_at_look,
        "plan": experiment.plan,
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
