"""Streamed files of all runs that one may view, with their measurements or their series."""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from typing import Annotated, Any, Literal

from django.http import HttpResponseBase, StreamingHttpResponse
from django.utils.http import content_disposition_header
from ninja import Path, Query, Schema
from pydantic import Field

from dashboard.api.problems import FieldProblem, Problem, ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import READ
from dashboard.arrow.arrow_files import CONTENT_TYPES, Ending
from dashboard.arrow.writing_process import write_table
from dashboard.comparisons.export_limit import RETRY_SECONDS, send_within_limit
from experiments.comparisons.copied_runs import (
    copy_measurements,
    copy_runs,
    copy_series,
    list_metrics,
)
from experiments.comparisons.typed_tables import CopiedTable, TypedTable
from experiments.models import Experiment, Run, User
from experiments.models.states import RunState

router = Router(tags=["Exports"])
MOST_METRICS = 100
MOST_PROBLEMS = 20
What = Literal["runs", "measurements", "series"]
PathWhat = Annotated[What, Path(description="What has a row each.")]
PathEnding = Annotated[Ending, Path(description="The format.")]
FILES: dict[str, Any] = {
    "description": "The file.",
    "content": {kind: {"schema": {}} for kind in CONTENT_TYPES.values()},
}
Key = Annotated[int | None, Field(ge=1, lt=2**63, description="The number in its address.")]


class ExportFilter(Schema):
    """Which runs; without any of these, all that one may view."""

    experiment: Key = None
    cluster: Key = None
    state: Annotated[RunState | None, Field(description="Of the run.")] = None
    node: Annotated[str | None, Field(description="The name of a node.")] = None
    environment: Annotated[str | None, Field(description="The name of an environment.")] = None
    workload: Annotated[str | None, Field(description="The name of a workload.")] = None
    tag: Annotated[str | None, Field(description="A tag of the experiment.")] = None
    metrics: Annotated[
        str, Field(description="Of runs: the metrics that have a column, by commas; else all.")
    ] = ""


def choose_runs(request: ApiRequest, chosen: ExportFilter) -> Any:
    """Return the runs that the filters leave of those that one may view."""
    values = {
        "experiment": chosen.experiment,
        "job__cluster": chosen.cluster,
        "state": chosen.state,
        "node": chosen.node,
        "environment__name": chosen.environment,
        "workload__name": chosen.workload,
        "experiment__tags__contains": [chosen.tag] if chosen.tag else None,
    }
    rows = Run.objects.filter(experiment__in=Experiment.objects.visible_to(request.user))
    return rows.filter(**{name: value for name, value in values.items() if value})


def _refuse_unknown_metrics(user: User, names: Collection[str]) -> None:
    """Raise Problem for names of metrics that no run has which this person may view.

    Where the filters leave none that has one the file is without that column.
    """
    visible = Run.objects.filter(experiment__in=Experiment.objects.visible_to(user))
    known = {name for name, _ in list_metrics(visible, list(names))} if names else set()
    if unknown := sorted(set(names) - known):
        problems = [
            FieldProblem("query.metrics", f"No run has a metric “{name[:60]}”.")
            for name in unknown[:MOST_PROBLEMS]
        ]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, problems[0].message, problems)


def _make_table(user: User, runs: Any, what: What, metrics: str) -> CopiedTable | TypedTable:
    if what == "measurements":
        return copy_measurements(runs)
    if what == "series":
        return copy_series(runs)
    names = [name.strip() for name in metrics.split(",") if name.strip()]
    columns = list_metrics(runs, names)
    _refuse_unknown_metrics(user, set(names) - {name for name, _ in columns})
    if len(columns) > MOST_METRICS:
        detail = (
            f"These runs have {len(columns)} metrics, and a file has columns for {MOST_METRICS}: "
            "name some with “metrics=”, or take the file of measurements."
        )
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
    return copy_runs(runs, columns)


@router.get(
    "export/{what}.{ending}",
    auth=READ,
    response={200: None, 401: ProblemSchema, 422: ProblemSchema, 503: ProblemSchema},
    openapi_extra={"responses": {200: FILES}},
)
def export(
    request: ApiRequest, what: PathWhat, ending: PathEnding, chosen: Query[ExportFilter]
) -> HttpResponseBase:
    """Stream a file of all runs that one may view, of their measurements, or of their series."""
    runs = choose_runs(request, chosen)

    def make_response() -> StreamingHttpResponse:
        pieces = write_table(_make_table(request.user, runs, what, chosen.metrics), ending)
        response = StreamingHttpResponse(pieces, content_type=CONTENT_TYPES[ending])
        name = content_disposition_header(True, f"tare-{what}.{ending}")
        response["Content-Disposition"] = name
        if ending != "csv":
            response["Content-Encoding"] = "identity"  # the middleware would pack it once more
        return response

    answer = send_within_limit(request, make_response)
    if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        raise Problem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            f"Other files are being sent: try again in {RETRY_SECONDS} s.",
            headers={"Retry-After": str(RETRY_SECONDS)},
        )
    return answer
