"""An experiment's numbers in the formats of other tools."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.http import HttpResponse

from dashboard.api.experiment_routes import REFUSED, Key, find_experiment
from dashboard.api.list_parts import send_row
from dashboard.api.problems import Problem, ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import READ
from experiments.comparisons.benchmark_formats import (
    describe_for_bencher,
    describe_for_pytest_benchmark,
)

router = Router(tags=["Other tools"])


@router.get("experiments/{pk}/bencher.json", auth=READ, response={200: dict[str, Any], **REFUSED})
def read_for_bencher(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return the experiment's numbers in Bencher's Benchmark Metric Format."""
    return send_row(request, describe_for_bencher(find_experiment(request, pk)))


@router.get(
    "experiments/{pk}/pytest-benchmark.json",
    auth=READ,
    response={200: dict[str, Any], 422: ProblemSchema, **REFUSED},
)
def read_for_pytest_benchmark(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return the experiment's times as pytest-benchmark stores them."""
    experiment = find_experiment(request, pk)
    try:
        content = describe_for_pytest_benchmark(experiment)
    except ValueError as error:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
    return send_row(request, content)
