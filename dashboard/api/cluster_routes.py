"""What is asked of clusters by the API: checks, connection tests, host keys, readings, pauses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Field, Query, Schema

from dashboard.access.rights import changeable_row, visible_row
from dashboard.api.catalogue_routes import send_described
from dashboard.api.catalogue_schemas import ClusterSchema
from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.form_bodies import StrictBody
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.list_parts import MOST, USUAL, send_content, send_list
from dashboard.api.problems import (
    FieldProblem,
    Problem,
    ProblemSchema,
    refusals_as_conflicts,
    refuse,
    refuse_now,
)
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import CLUSTERS, READ
from dashboard.api.visibility_changes import VisibilityChange, change_row
from dashboard.api.visit_schemas import (
    ClusterCheckSchema,
    ConnectionTestSchema,
    HostKeySchema,
    describe_checks,
    describe_host_key,
    describe_tests,
)
from experiments.access.permissions import why_not_change, why_not_write_setup_lines
from experiments.clusters import connection_tests, preflights
from experiments.clusters.back_offs import end_back_off
from experiments.clusters.pauses import try_now
from experiments.models import Cluster, Experiment, HostKey, Pause
from experiments.models.checks import compute_fingerprint
from experiments.notify import enqueue_tick, enqueue_visit

router = Router(tags=["Clusters"])
NOT_NOW: dict[int, Any] = {409: ProblemSchema, 422: ProblemSchema, **REFUSED}
CHANGED: dict[int, Any] = {200: ClusterSchema, **NOT_NOW}
SAME_LIMITS = "The last check suggests no other limits."
NOT_WAITING = "Nothing was changed: no failed visit keeps Tare waiting there."
OTHER_KEY = (
    "This is not the fingerprint of that key: compare it with what the centre has published."
)


class Pinning(StrictBody):
    """The fingerprint that a person has compared."""

    fingerprint: str = Field(examples=["SHA256:..."])


class PauseSchema(Schema):
    """Nothing is sent to a cluster, a partition or of an experiment until it ends."""

    id: int
    kind: str
    message: str
    partition: int | None
    experiment: int | None
    since: datetime
    retry_at: datetime


class PauseList(Schema):
    """A part of the list of the pauses of a cluster."""

    items: list[PauseSchema]
    next: str | None


@router.patch("clusters/{pk}", auth=CLUSTERS, response=CHANGED)
def change_cluster(request: ApiRequest, pk: Key, change: VisibilityChange) -> HttpResponse:
    """Change who can view a cluster; who may send jobs there is said by its credential."""
    change_row(request, changeable_row(request, Cluster, pk), change, lambda values: None)
    return send_described(request, "clusters", pk)


@router.get("clusters/{pk}/check", auth=READ, response={200: ClusterCheckSchema, **REFUSED})
def read_check(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return the last check of a cluster."""
    return _send_check(request, visible_row(request, Cluster, pk))


@router.post(
    "clusters/{pk}/check",
    auth=CLUSTERS,
    throttle=HEAVY,
    response={202: ClusterCheckSchema, **NOT_NOW},
)
@idempotent
def check_cluster(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have a cluster checked, on a compute node of each partition too."""
    row = _find_checkable(request, pk)
    refuse_now(preflights.why_not_ask(row))
    enqueue_visit(preflights.request_check(row, request.user))
    return _send_check(request, row, HTTPStatus.ACCEPTED)


def _send_check(
    request: ApiRequest, row: Cluster, status: HTTPStatus = HTTPStatus.OK
) -> HttpResponse:
    findings = preflights.collect_findings(row)
    last = findings.last
    content = ClusterCheckSchema(
        is_under_way=findings.under_way is not None,
        outcome=last.outcome if last else "",
        ended_at=last.ended_at if last else None,
        checks=describe_checks(last.checks if last else []),
        suggested_limits=findings.suggested,
    )
    return send_content(request, content, status)


@router.post("clusters/{pk}/limits", auth=CLUSTERS, response=CHANGED)
@idempotent
def take_limits(request: ApiRequest, pk: Key) -> HttpResponse:
    """Store the limits that the last check of a cluster suggests."""
    row = changeable_row(request, Cluster, pk)
    if not preflights.take_suggested_limits(row, request.user):
        raise Problem(HTTPStatus.CONFLICT, SAME_LIMITS)
    return send_described(request, "clusters", pk)


@router.post("clusters/{pk}/try", auth=CLUSTERS, throttle=HEAVY, response=CHANGED)
@idempotent
def try_cluster(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have a cluster visited at once whose last visits have failed."""
    row = _find_checkable(request, pk)
    if not end_back_off(row, request.user):
        raise Problem(HTTPStatus.CONFLICT, NOT_WAITING)
    enqueue_tick(row.pk)
    return send_described(request, "clusters", pk)


@router.get("clusters/{pk}/pauses", auth=READ, response={200: PauseList, **REFUSED})
def list_pauses(
    request: ApiRequest,
    pk: Key,
    limit: Annotated[int, Query(ge=1, le=MOST)] = USUAL,
    cursor: str = "",
    fields: str = "",
) -> HttpResponse:
    """List the pauses of a cluster; not those of experiments that one may not view."""
    cluster = visible_row(request, Cluster, pk)
    seen = Experiment.objects.visible_to(request.user).values("pk")
    shown = cluster.pauses.filter(Q(experiment=None) | Q(experiment__in=seen))
    return send_list(
        request, shown, PauseSchema, _describe_pauses, limit=limit, cursor=cursor, fields=fields
    )


def _describe_pauses(rows: Sequence[Pause]) -> Iterable[PauseSchema]:
    names = PauseSchema.model_fields.keys() - {"id", "partition", "experiment"}
    for row in rows:
        yield PauseSchema(
            id=row.pk,
            partition=row.partition_id,
            experiment=row.experiment_id,
            **{name: getattr(row, name) for name in names},
        )


@router.post("pauses/{pk}/try", auth=CLUSTERS, throttle=HEAVY, response=CHANGED)
@idempotent
def try_pause(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have the next visit try again what a site refused."""
    seen = Pause.objects.filter(cluster__in=Cluster.objects.visible_to(request.user))
    row = get_object_or_404(seen.select_related("cluster"), pk=pk)
    refuse(preflights.why_not_check(row.cluster, request.user))
    try_now(row, request.user)
    enqueue_tick(row.cluster_id)
    return send_described(request, "clusters", row.cluster_id)


@router.get("clusters/{pk}/connection", auth=READ, response={200: ConnectionTestSchema, **REFUSED})
def read_connection(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return the last connection test of a cluster."""
    row = _find_connected(request, pk)
    tests = connection_tests.get_latest_tests(row.credential, row) if row.credential else None
    return send_content(request, describe_tests(tests), HTTPStatus.OK)


@router.post(
    "clusters/{pk}/connection",
    auth=CLUSTERS,
    throttle=HEAVY,
    response={202: ConnectionTestSchema, **NOT_NOW},
)
@idempotent
def try_connection(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have Tare log in to a cluster over every jump host, and nothing else."""
    row = _find_connected(request, pk)
    assert row.credential
    enqueue_visit(connection_tests.request_test(row.credential, request.user, cluster=row))
    tests = connection_tests.get_latest_tests(row.credential, row)
    return send_content(request, describe_tests(tests), HTTPStatus.ACCEPTED)


@router.get("clusters/{pk}/host-key", auth=READ, response={200: HostKeySchema, **REFUSED})
def read_host_key(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return the key that is pinned for a cluster, and the one that its host showed last."""
    return _send_host_key(request, _find_with_host(request, pk))


@router.post(
    "clusters/{pk}/host-key",
    auth=CLUSTERS,
    throttle=HEAVY,
    response={202: HostKeySchema, **NOT_NOW},
)
@idempotent
def fetch_host_key(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have the key fetched that a cluster's host shows, for a person to compare."""
    row = _find_with_host(request, pk)
    enqueue_visit(preflights.request_host_key(row, request.user))
    return _send_host_key(request, row, HTTPStatus.ACCEPTED)


@router.post("host-keys/{pk}/pin", auth=CLUSTERS, response={200: HostKeySchema, **NOT_NOW})
@idempotent
def pin_host_key(request: ApiRequest, pk: Key, pinning: Pinning) -> HttpResponse:
    """Trust a host key that a person has compared, and names by its fingerprint."""
    seen = HostKey.objects.filter(cluster__in=Cluster.objects.visible_to(request.user))
    row = get_object_or_404(seen.select_related("cluster"), pk=pk)
    refuse(why_not_write_setup_lines(request.user, row.cluster))
    if pinning.fingerprint.strip() != row.fingerprint or not row.key:
        problems = [FieldProblem("fingerprint", OTHER_KEY)]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, OTHER_KEY, problems)
    with refusals_as_conflicts(preflights.NotPinned):
        preflights.pin(row, request.user)
    return _send_host_key(request, Cluster.objects.get(pk=row.cluster_id))


def _send_host_key(
    request: ApiRequest, row: Cluster, status: HTTPStatus = HTTPStatus.OK
) -> HttpResponse:
    shown = preflights.find_host_key(row)
    content = HostKeySchema(
        **describe_host_key(compute_fingerprint(row.host_key), shown),
        host=shown.host if shown else row.host,
        port=shown.port if shown else row.port,
        problem=shown.problem if shown else "",
        pinned_at=shown.pinned_at if shown else None,
    )
    return send_content(request, content, status)


def _find_checkable(request: ApiRequest, pk: int) -> Cluster:
    """Return a cluster that one may check. Raises Http404 or Problem 403."""
    row = visible_row(request, Cluster, pk)
    refuse(preflights.why_not_check(row, request.user))
    return row


def _find_connected(request: ApiRequest, pk: int) -> Cluster:
    """Return a cluster that a key opens, which one may check. Raises Http404 or Problem 403."""
    rows = Cluster.objects.visible_to(request.user).exclude(credential=None)
    row = get_object_or_404(rows, pk=pk, transport="ssh")
    refuse(preflights.why_not_check(row, request.user))
    return row


def _find_with_host(request: ApiRequest, pk: int) -> Cluster:
    """Return a cluster with an address, which one may change. Raises Http404 or Problem 403."""
    row = get_object_or_404(Cluster.objects.visible_to(request.user).exclude(host=""), pk=pk)
    refuse(why_not_change(request.user, row))
    return row
