"""Reading a stored cluster again, and taking over what differs from what is stored."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from dashboard.access.rights import require, visible_row
from dashboard.typed_requests import Request, read_posted_text
from experiments.clusters import cluster_updates as updates
from experiments.clusters.preflights import why_not_ask
from experiments.clusters.visit_requests import NotStored
from experiments.execution import explain_partition_problem
from experiments.models import Cluster
from experiments.notify import enqueue_visit

REFRESH_SECONDS = 1  # while a reading is under way


@require_POST
def read(request: Request, pk: int) -> HttpResponse:
    """Request a reading; a worker makes it, and the page of differences shows what came."""
    row = _get_cluster(request, pk)
    require(why_not_ask(row))
    try:
        enqueue_visit(updates.request_reading(row, request.user))
    except NotStored:
        messages.error(request, "This was not asked for: somebody else has just done so.")
    return redirect("cluster_differences", pk)


@require_safe
def differences(request: Request, pk: int) -> HttpResponse:
    """Show what differs between the last reading of a cluster and what is stored of it."""
    row = _get_cluster(request, pk)
    under_way = updates.find_reading_under_way(row)
    last = None if under_way else updates.find_last_reading(row)
    context = {
        "cluster": row,
        "under_way": under_way,
        "last": last,
        "offer": last.offer if last else None,
        "differences": updates.list_differences(row, last) if last else [],
        "refresh_seconds": REFRESH_SECONDS if under_way else 0,
    }
    template = "clusters/differences.html" + ("#live" if request.htmx else "")
    return render(request, template, context)


@require_POST
def apply_differences(request: Request, pk: int) -> HttpResponse:
    """Store the differences that are ticked, and nothing else."""
    row = _get_cluster(request, pk)
    reading = read_posted_text(request, "reading")
    try:
        stored = updates.apply_differences(
            row,
            reading_pk=int(reading) if reading.isdecimal() and len(reading) < 19 else None,
            keys=set(request.POST.getlist("difference")),
            by=request.user,
            explain_problem=explain_partition_problem,
        )
    except updates.NotApplied as problem:
        messages.error(request, f"Nothing was changed. {problem}")
    else:
        count = f"{len(stored)} difference{'s' * (len(stored) != 1)}"
        messages.success(request, f"{count} stored. Check the cluster before the next experiment.")
    return redirect("cluster_differences", pk)


def _get_cluster(request: Request, pk: int) -> Cluster:
    row = visible_row(request, Cluster, pk, "jump_host", "credential")
    require(updates.why_not_read(request.user, row))
    return row
