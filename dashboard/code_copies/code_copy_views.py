"""Code of workloads on clusters: what a workload's page shows, and the requests of its buttons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.db.models import Count, Sum
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from dashboard.access.rights import require, visible_row
from dashboard.typed_requests import Request, parse_whole_number
from experiments.access import permissions
from experiments.code_copies import code_requests
from experiments.code_copies.archives import find_kept
from experiments.images import staging
from experiments.models import Cluster, CodeArchive, CodeCopy, Operation, User, Workload

MOST_SHOWN = 20
"""So many unused copies are shown on the page of a cluster, the largest ones."""


@require_POST
def put(request: Request, pk: int) -> HttpResponse:
    """Have the code of a workload put on a cluster."""
    row = visible_row(request, Workload, pk, "owner")
    require(permissions.why_not_add(request.user, CodeCopy))
    asked = parse_whole_number(request.POST.get("cluster"))
    cluster = Cluster.objects.visible_to(request.user).filter(pk=asked or 0).first()
    if cluster is None:
        messages.error(request, "Choose a cluster on which to put the code.")
        return redirect("workload", pk=pk)
    try:
        code_requests.put(row, cluster, request.user)
    except code_requests.NotDone as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, f"Its code is being put on {cluster}.")
    return redirect("workload", pk=pk)


@require_POST
def check(request: Request, pk: int) -> HttpResponse:
    """Have all files of a copy read."""
    return _request(request, pk, lambda row: code_requests.check(row, request.user))


@require_POST
def remove(request: Request, pk: int) -> HttpResponse:
    """Have a copy removed from its cluster."""
    return _request(request, pk, lambda row: _remove(request, row))


def _remove(request: Request, row: CodeCopy) -> None:
    require(permissions.why_not_change(request.user, row))
    code_requests.remove(row, request.user)


def _request(request: Request, pk: int, ask: Callable[[CodeCopy], object]) -> HttpResponse:
    rows = code_requests.list_visible_copies(request.user).select_related("cluster", "owner")
    row = get_object_or_404(rows, pk=pk)
    require(permissions.why_not_add(request.user, CodeCopy))
    try:
        ask(row)
    except code_requests.NotDone as refusal:
        messages.error(request, str(refusal))
    keys = code_requests.list_workloads_of(row.source).values("pk")
    shown = Workload.objects.visible_to(request.user).filter(pk__in=keys).order_by("pk").first()
    return redirect("workload", pk=shown.pk) if shown else redirect("cluster", pk=row.cluster_id)


def describe_unused_code(cluster: Cluster, user: User) -> dict[str, Any]:
    """Return what a cluster's page shows of the code there that no workload names any more."""
    rows = code_requests.list_visible_copies(user).filter(cluster=cluster)
    unused = code_requests.list_unused_copies(rows)
    totals = unused.aggregate(count=Count("pk"), size_bytes=Sum("size_bytes"))
    shown = list(unused.select_related("owner", "cluster")[:MOST_SHOWN]) if totals["count"] else []
    removable = permissions.list_changeable_keys(user, shown)
    return {**totals, "copies": shown, "removable": removable}


def describe_code(workload: Workload, user: User) -> dict[str, Any]:
    """Return what the page of a workload shows of its code; {} where it names none."""
    source = workload.code_source
    if source is None:
        return {}
    rows = code_requests.list_visible_copies(user).of_source(source)
    placed = list(rows.select_related("cluster", "owner"))
    about = Operation.objects.filter(code_copy__in=placed)
    about = about.defer("script", "result", "code_copy__paths")
    alive = list(about.exclude(state__in=Operation.FINAL).select_related("code_copy__cluster"))
    usable = Cluster.objects.usable_by(user)
    archive = CodeArchive.objects.filter(pk=source.archive).first() if source.archive else None
    return {
        "source": source,
        "archive": archive,
        "archive_is_gone": bool(source.archive) and find_kept(source.archive) is None,
        "copies": placed,
        "operations_alive": alive,
        "busy": {operation.code_copy_id for operation in alive},
        "cancellable": staging.list_cancellable_keys(alive, user),
        "removable": permissions.list_changeable_keys(user, placed),
        "usable": set(usable.values_list("pk", flat=True)),
        "may_add": permissions.may_add(user, CodeCopy),
        "clusters": list(usable.exclude(pk__in=[row.cluster_id for row in placed])),
    }
