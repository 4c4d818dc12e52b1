"""Several experiments and published tables together: the summary of the page Studies."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from django.http import HttpResponse, HttpResponseBase
from ninja import Field, Query, Schema

from dashboard.api.document import describe_content
from dashboard.api.limits import HEAVY
from dashboard.api.list_parts import send_row
from dashboard.api.problems import FieldProblem, Problem, ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import READ
from dashboard.comparisons.safe_files import stream_csv
from dashboard.comparisons.studies import Studies, read_studies
from dashboard.comparisons.studies_files import describe_page, list_study_rows, write_latex
from dashboard.comparisons.study_choice import StudyChoice
from dashboard.comparisons.study_facts import list_study_facts
from dashboard.lists import MOST_COMPARED

router = Router(tags=["Summaries"])
RowKey = Annotated[int, Field(ge=1, lt=2**63)]
NAMED = "Write KEY=NAME, where KEY is e or t and the number of a study that is chosen, such as e12."
TOO_MANY = f"At most {MOST_COMPARED} studies are put together."
UNKNOWN_NAMES = "Names that nothing of these studies has."
REFUSED: dict[int, Any] = {401: ProblemSchema, 422: ProblemSchema}


class SummaryQuery(Schema):
    """Which studies are put together, and what of them."""

    experiment: list[RowKey] = Field([], description="Numbers of experiments, one a parameter.")
    table: list[RowKey] = Field([], description="Numbers of published tables.")
    label: str = Field("", description="What the container is called over all studies.")
    environment: list[str] = Field([], description=f"The environment of a study. {NAMED}")
    configuration: list[str] = Field([], description=f"Those that are taken alone. {NAMED}")


def _read(request: ApiRequest, asked: SummaryQuery) -> Studies:
    experiments, tables = list(dict.fromkeys(asked.experiment)), list(dict.fromkeys(asked.table))
    keys = [f"e{number}" for number in experiments] + [f"t{number}" for number in tables]
    if len(keys) > MOST_COMPARED:
        problems = [FieldProblem("query", TOO_MANY)]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, TOO_MANY, problems)
    configurations: dict[str, list[str]] = {}
    for key, name in _split("configuration", asked.configuration, keys):
        configurations.setdefault(key, []).append(name)
    choice = StudyChoice(
        experiments=experiments,
        tables=tables,
        label=asked.label,
        environments=dict(_split("environment", asked.environment, keys)),
        configurations=configurations,
    )
    shown = read_studies(request.user, choice)
    if shown.not_understood:
        problems = [FieldProblem("query", sentence) for sentence in shown.not_understood]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, UNKNOWN_NAMES, problems)
    return shown


def _split(field: str, texts: list[str], keys: list[str]) -> list[tuple[str, str]]:
    pairs = [text.partition("=")[::2] for text in texts]
    if any(key not in keys or not name for key, name in pairs):
        problems = [FieldProblem(f"query.{field}", NAMED)]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, NAMED, problems)
    return pairs


@router.get(
    "compare/studies.json",
    auth=READ,
    throttle=HEAVY,
    response={200: dict[str, Any], **REFUSED},
)
def summarize_studies(request: ApiRequest, asked: Query[SummaryQuery]) -> HttpResponse:
    """Return the effects of several studies with their summary, without those that are hidden."""
    shown = _read(request, asked)
    return send_row(request, describe_page(shown, list_study_facts(shown)))


@router.get(
    "compare/studies.csv",
    auth=READ,
    throttle=HEAVY,
    response={200: None, **REFUSED},
    openapi_extra=describe_content("text/csv", "The rows with the summary."),
)
def summarize_studies_csv(request: ApiRequest, asked: Query[SummaryQuery]) -> HttpResponseBase:
    """Return the effects of several studies with their summary as a table."""
    return stream_csv(list_study_rows(_read(request, asked)), "tare-across-studies.csv")


@router.get(
    "compare/studies.tex",
    auth=READ,
    throttle=HEAVY,
    response={200: None, **REFUSED},
    openapi_extra=describe_content("application/x-tex", "The table for a paper."),
)
def summarize_studies_tex(request: ApiRequest, asked: Query[SummaryQuery]) -> HttpResponse:
    """Return the table of several studies for a paper."""
    text = write_latex(_read(request, asked))
    return HttpResponse(text, content_type="application/x-tex; charset=utf-8")
