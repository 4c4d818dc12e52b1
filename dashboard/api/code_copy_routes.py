"""Code of workloads on clusters by the API."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404

from dashboard.access.rights import visible_row
from dashboard.api.catalogue_routes import send_described
from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.form_bodies import INVALID, RowKey, StrictBody
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.operation_schemas import CodeCopySchema, OperationSchema
from dashboard.api.problems import (
    FieldProblem,
    Problem,
    ProblemSchema,
    refusals_as_conflicts,
    refuse,
)
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import CATALOGUE
from experiments.access.permissions import why_not_add, why_not_change
from experiments.code_copies import code_requests
from experiments.models import Cluster, CodeCopy, Workload

router = Router(tags=["Catalogue"])
NOT_NOW: dict[int, Any] = {409: ProblemSchema, 422: ProblemSchema, **REFUSED}


class CodePlace(StrictBody):
    """Where the code of a workload is to be put."""

    cluster: RowKey


@router.post(
    "workloads/{pk}/code",
    auth=CATALOGUE,
    throttle=HEAVY,
    response={201: CodeCopySchema, **NOT_NOW},
)
@idempotent
def put_code(request: ApiRequest, pk: Key, place: CodePlace) -> HttpResponse:
    """Have the code of a workload put on a cluster: its archive sent, or its commit fetched."""
    workload = visible_row(request, Workload, pk, "owner")
    refuse(why_not_add(request.user, CodeCopy))
    cluster = Cluster.objects.visible_to(request.user).filter(pk=place.cluster).first()
    if cluster is None:
        problems = [FieldProblem("cluster", "There is no such cluster.")]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)
    with refusals_as_conflicts(code_requests.NotDone):
        row = code_requests.put(workload, cluster, request.user)
    return send_described(request, "code-copies", row.pk, status=HTTPStatus.CREATED)


@router.post(
    "code-copies/{pk}/check",
    auth=CATALOGUE,
    throttle=HEAVY,
    response={202: OperationSchema, **NOT_NOW},
)
@idempotent
def check_code_copy(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have all files of a copy of code read."""
    row = _find_copy(request, pk)
    with refusals_as_conflicts(code_requests.NotDone):
        operation = code_requests.check(row, request.user)
    return send_described(request, "operations", operation.pk, status=HTTPStatus.ACCEPTED)


@router.delete("code-copies/{pk}", auth=CATALOGUE, response={202: OperationSchema, **NOT_NOW})
def remove_code_copy(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have a copy of code removed from its cluster, and forgotten."""
    row = _find_copy(request, pk)
    refuse(why_not_change(request.user, row))
    with refusals_as_conflicts(code_requests.NotDone):
        operation = code_requests.remove(row, request.user)
    return send_described(request, "operations", operation.pk, status=HTTPStatus.ACCEPTED)


def _find_copy(request: ApiRequest, pk: int) -> CodeCopy:
    """Return a copy of code that one may view. Raises Http404 or Problem 403."""
    rows = code_requests.list_visible_copies(request.user).select_related("cluster", "owner")
    row = get_object_or_404(rows, pk=pk)
    refuse(why_not_add(request.user, CodeCopy))
    return row
