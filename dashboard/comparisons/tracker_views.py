"""Files of an experiment for trackers of benchmarks."""

from __future__ import annotations

from django.http import Http404, HttpResponseBase
from django.views.decorators.http import require_safe

from dashboard.access.rights import by_link, get_readable
from dashboard.comparisons.export_limit import limit_exports
from dashboard.comparisons.safe_files import make_file_name, make_json_response
from dashboard.typed_requests import OpenRequest
from experiments.comparisons.benchmark_formats import (
    describe_for_bencher,
    describe_for_pytest_benchmark,
)


@by_link
@require_safe
@limit_exports
def bencher_json(request: OpenRequest, pk: int) -> HttpResponseBase:
    """Send the experiment's numbers in Bencher's Benchmark Metric Format."""
    experiment = get_readable(request, pk)
    name = make_file_name(experiment, "bencher", ".json")
    return make_json_response(describe_for_bencher(experiment), name)


@by_link
@require_safe
@limit_exports
def pytest_benchmark_json(request: OpenRequest, pk: int) -> HttpResponseBase:
    """Send the experiment's times as pytest-benchmark stores them."""
    experiment = get_readable(request, pk)
    try:
        content = describe_for_pytest_benchmark(experiment)
    except ValueError as error:
        raise Http404(str(error)) from error
    return make_json_response(content, make_file_name(experiment, "pytest-benchmark", ".json"))
