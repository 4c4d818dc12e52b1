"""Several studies of the reader's choice together; the address holds the whole choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from dashboard.comparisons.figure_kinds import FOREST
from dashboard.comparisons.figure_views import Subject, send_figure
from dashboard.comparisons.refused_files import refuse_file
from dashboard.comparisons.safe_files import make_file_name, make_json_response, stream_csv
from dashboard.comparisons.studies import Studies, read_studies
from dashboard.comparisons.studies_files import describe_page, list_study_rows, write_latex
from dashboard.comparisons.studies_forest import describe_alpha, describe_studies, make_figure
from dashboard.comparisons.study_choice import StudyChoice, read_choice
from dashboard.comparisons.study_facts import list_study_facts
from dashboard.drawings.drawing_process import Ending
from dashboard.drawings.forest import Forest
from dashboard.typed_requests import Request
from experiments.models import Experiment, PublishedTable

MOST_OFFERED = 30
"""Experiments, and tables, that the page offers to add: the newest."""


@dataclass(frozen=True)
class FileName:
    """What the files of this page are named after."""

    key: str = "across-studies"
    question: str = ""


@require_safe
def studies(request: Request) -> HttpResponse:
    """Show the studies that the address names: what differs, their forest plot, their summary."""
    shown = _read(request)
    context: dict[str, Any] = {
        "studies": shown,
        "query": shown.choice.make_query(),
        "rows": [(row, shown.choice.make_query(without=row.key)) for row in shown.rows],
        "offered": list_offered(request, shown.choice),
    }
    if shown.rows:
        context |= {
            "facts": list_study_facts(shown),
            "figure": make_figure(shown),
            "other_levels": describe_alpha(shown),
        }
    return render(request, "comparisons/studies.html", context)


@require_safe
def studies_csv(request: Request) -> HttpResponseBase:
    """Send the shown rows with the summary as a CSV file."""
    shown = _read(request)
    if shown.not_understood:
        return refuse_file(request, shown.not_understood)
    return stream_csv(list_study_rows(shown), make_file_name(FileName(), "", ".csv"))


@require_safe
def studies_json(request: Request) -> HttpResponseBase:
    """Send all that the page shows as a JSON file."""
    shown = _read(request)
    if shown.not_understood:
        return refuse_file(request, shown.not_understood)
    content = {
        "address": request.build_absolute_uri().replace("/studies.json", "/"),
        **describe_page(shown, list_study_facts(shown)),
    }
    return make_json_response(content, make_file_name(FileName(), "", ".json"))


@require_safe
def studies_tex(request: Request) -> HttpResponseBase:
    """Send the table of the studies for a paper."""
    shown = _read(request)
    if shown.not_understood:
        return refuse_file(request, shown.not_understood)
    response = HttpResponse(write_latex(shown), content_type="application/x-tex; charset=utf-8")
    name = make_file_name(FileName(), "", ".tex")
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    return response


@require_safe
def studies_forest(request: Request, ending: Ending) -> HttpResponseBase:
    """Send the forest plot of the studies."""
    shown = _read(request)
    if shown.not_understood:
        return refuse_file(request, shown.not_understood)

    def describe() -> Forest:
        described = describe_studies(shown)
        if described is None:
            raise Http404("None of these studies has anything to show.")
        return described

    return send_figure(request, Subject(FileName(), "", describe), FOREST, ending)


def list_offered(
    request: Request, choice: StudyChoice
) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Return keys and questions of the newest experiments with results, and of tables."""
    experiments = (
        Experiment.objects.visible_to(request.user)
        .with_results()
        .filter(archived_at=None)
        .exclude(pk__in=choice.experiments)
        .newest_first()
    )
    tables = (
        PublishedTable.objects.visible_to(request.user)
        .exclude(pk__in=choice.tables)
        .order_by("-created_at")
    )
    return (
        list(experiments.values_list("pk", "question")[:MOST_OFFERED]),
        list(tables.values_list("pk", "question")[:MOST_OFFERED]),
    )


def _read(request: Request) -> Studies:
    return read_studies(request.user, read_choice(request.GET))
