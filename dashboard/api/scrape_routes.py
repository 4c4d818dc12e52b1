"""Metrics of runs as Prometheus scrapes them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from django.http import HttpResponse
from ninja import Query

from dashboard.api.experiment_routes import REFUSED, Key, find_experiment
from dashboard.api.problems import Problem, ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.run_routes import Uid, find_run
from dashboard.api.tokens import READ
from experiments.execution.open_metrics import CONTENT_TYPE, TooManySamples, write_open_metrics
from experiments.models import Run

router = Router(tags=["Other tools"])
SCRAPED: dict[str, Any] = {
    "responses": {
        200: {
            "description": "Metrics in the text format of OpenMetrics.",
            "content": {CONTENT_TYPE.partition(";")[0]: {"schema": {"type": "string"}}},
        }
    }
}
Metrics = Annotated[str, Query(description="The names of metrics, by commas; else all.")]


def _send(runs: Any, metrics: str) -> HttpResponse:
    names = [name.strip() for name in metrics.split(",") if name.strip()]
    try:
        content = write_open_metrics(runs, names)
    except TooManySamples as error:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
    return HttpResponse(content, content_type=CONTENT_TYPE)


@router.get(
    "experiments/{pk}/openmetrics",
    auth=READ,
    response={200: None, 422: ProblemSchema, **REFUSED},
    openapi_extra=SCRAPED,
)
def scrape_experiment(request: ApiRequest, pk: Key, metrics: Metrics = "") -> HttpResponse:
    """Return the metrics of an experiment's runs. While it is asked for, running runs are read."""
    return _send(Run.objects.filter(experiment=find_experiment(request, pk).pk), metrics)


@router.get(
    "runs/{uid}/openmetrics",
    auth=READ,
    response={200: None, 422: ProblemSchema, **REFUSED},
    openapi_extra=SCRAPED,
)
def scrape_run(request: ApiRequest, uid: Uid, metrics: Metrics = "") -> HttpResponse:
    """Return the metrics of a run. While it is asked for, a running run is read."""
    return _send(Run.objects.filter(pk=find_run(request, uid).pk), metrics)
