"""The numbers of an experiment as files: from them every one on a page can be recomputed."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, HttpResponseBase
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET

from dashboard import latex
from dashboard.access import by_link, readable
from dashboard.exports import as_csv, as_json, file_name
from dashboard.requests import OpenRequest
from experiments.comparisons import compare_experiment, comparison_rows, run_rows
from experiments.models import Experiment


@by_link
@require_GET
def comparison_csv(request: OpenRequest, pk: int) -> HttpResponseBase:
    experiment = readable(request, pk)
    rows = comparison_rows(compare_experiment(experiment))
    return as_csv(rows, file_name(experiment, "comparison", ".csv"))


@by_link
@require_GET
def comparison_json(request: OpenRequest, pk: int) -> HttpResponseBase:
    experiment = readable(request, pk)
    rows = comparison_rows(compare_experiment(experiment))
    content = {"experiment": _about(experiment), "comparison": rows}
    return as_json(content, file_name(experiment, "comparison", ".json"))


@by_link
@require_GET
def comparison_tex(request: OpenRequest, pk: int) -> HttpResponseBase:
    experiment = readable(request, pk)
    text = latex.comparison_tex(compare_experiment(experiment))
    answer = HttpResponse(text, content_type="application/x-tex; charset=utf-8")
    name = file_name(experiment, "comparison", ".tex")
    answer["Content-Disposition"] = content_disposition_header(True, name)
    return answer


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


def _about(experiment: Experiment) -> dict[str, Any]:
    """Return the definition with its hash: what the rows are to be read with."""
    return {
        "question": experiment.question,
        "launched_at": experiment.launched_at,
        "plan_hash": experiment.plan_hash,
        "order_seed": experiment.order_seed,
        "margin": experiment.margin,
        "plan": experiment.plan,
    }
