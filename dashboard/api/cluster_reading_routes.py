"""Clusters read again by the API, and what differs from what is stored of them."""

from __future__ import annotations

from http import HTTPStatus

from django.http import HttpResponse
from ninja import Field

from dashboard.access.rights import visible_row
from dashboard.api.cluster_routes import NOT_NOW
from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.form_bodies import RowKey, StrictBody
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.list_parts import send_content
from dashboard.api.problems import refusals_as_conflicts, refuse, refuse_now
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import CLUSTERS, READ
from dashboard.api.visit_schemas import (
    ClusterDifferenceSchema,
    ClusterDifferencesSchema,
    describe_checks,
)
from experiments.clusters import cluster_updates as updates
from experiments.clusters import preflights
from experiments.execution import explain_partition_problem
from experiments.models import Cluster
from experiments.notify import enqueue_visit

router = Router(tags=["Clusters"])


class ChosenDifferences(StrictBody):
    """The differences that are to be stored."""

    reading: RowKey = Field(description="The reading in which they were seen.")
    differences: list[str] = Field(description="Their `key`s.")


@router.get(
    "clusters/{pk}/differences", auth=READ, response={200: ClusterDifferencesSchema, **REFUSED}
)
def read_differences(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return what differs between the last reading of a cluster and what is stored of it."""
    return _send_differences(request, _find_readable(request, pk))


@router.post(
    "clusters/{pk}/read",
    auth=CLUSTERS,
    throttle=HEAVY,
    response={202: ClusterDifferencesSchema, **NOT_NOW},
)
@idempotent
def read_cluster_again(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have a cluster read again: its partitions and runtimes; nothing is stored of it yet."""
    row = _find_readable(request, pk)
    refuse_now(preflights.why_not_ask(row))
    enqueue_visit(updates.request_reading(row, request.user))
    return _send_differences(request, row, HTTPStatus.ACCEPTED)


@router.post(
    "clusters/{pk}/differences/apply",
    auth=CLUSTERS,
    response={200: ClusterDifferencesSchema, **NOT_NOW},
)
@idempotent
def apply_differences(request: ApiRequest, pk: Key, chosen: ChosenDifferences) -> HttpResponse:
    """Store the differences that are named, and nothing else."""
    row = _find_readable(request, pk)
    with refusals_as_conflicts(updates.NotApplied):
        updates.apply_differences(
            row,
            reading_pk=chosen.reading,
            keys=set(chosen.differences),
            by=request.user,
            explain_problem=explain_partition_problem,
        )
    return _send_differences(request, _find_readable(request, pk))


def _send_differences(
    request: ApiRequest, row: Cluster, status: HTTPStatus = HTTPStatus.OK
) -> HttpResponse:
    under_way = updates.find_reading_under_way(row)
    last = None if under_way else updates.find_last_reading(row)
    columns = ("key", "part", "name", "column", "text", "is_proposed", "is_possible")
    content = ClusterDifferencesSchema(
        is_under_way=under_way is not None,
        reading=last.pk if last else None,
        outcome=last.outcome if last else "",
        ended_at=last.ended_at if last else None,
        checks=describe_checks(last.checks if last else []),
        differences=[
            ClusterDifferenceSchema(
                stored=each.stored_text,
                read=each.read_text,
                **{name: getattr(each, name) for name in columns},
            )
            for each in (updates.list_differences(row, last) if last else [])
        ],
    )
    return send_content(request, content, status)


def _find_readable(request: ApiRequest, pk: int) -> Cluster:
    """Return a cluster that one may read again. Raises Http404 or Problem 403."""
    row = visible_row(request, Cluster, pk, "jump_host", "credential")
    refuse(updates.why_not_read(request.user, row))
    return row
