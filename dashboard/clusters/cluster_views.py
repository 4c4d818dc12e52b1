"""Pages on clusters: whether they are reachable, what they have, and which jobs run there."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import (
    Count,
    OuterRef,
    Prefetch,
    Q,
    QuerySet,
    Subquery,
    prefetch_related_objects,
)
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from dashboard.access.rights import changeable_row, require, visible_row
from dashboard.code_copies.code_copy_views import describe_unused_code
from dashboard.lists import WordFilter, make_listing
from dashboard.typed_requests import Request
from experiments.access.permissions import why_not_change, why_not_write_setup_lines
from experiments.clusters import connection_tests, preflights
from experiments.clusters.back_offs import end_back_off
from experiments.clusters.pauses import try_now
from experiments.comparisons.aa_verdicts import list_last_aa_verdicts
from experiments.execution.limits import describe_limits, find_holds
from experiments.execution.overdue_visits import find_overdue, find_overdue_of_clusters
from experiments.execution.queue_places import is_question_refused
from experiments.execution.retention import summarize
from experiments.models import Cluster, Experiment, HostKey, Job, Operation, Pause
from experiments.models.checks import compute_fingerprint
from experiments.notify import enqueue_tick, enqueue_visit

SORTS = {"name": "name", "contact": "last_seen_at"}
RECENT = 20
NAMED_IN_OPERATIONS = (
    *("owner", "staged_image__image", "environment", "image_import", "image"),
    *("data_copy__data_set", "data_copy__cluster", "code_copy__cluster"),
)
"""What the lines of a list of operations name."""
TRIES_AGAIN = "Tare tries again at its next visit, in a few seconds."


@require_safe
def clusters(request: Request) -> HttpResponse:
    """List the clusters that the reader may see, with their live jobs and operations."""
    filters = WordFilter(request)
    rows = (
        Cluster.objects.visible_to(request.user)
        .filter(Q(name__icontains=filters.search_text) | Q(host__icontains=filters.search_text))
        .annotate(**_count_jobs())
        .prefetch_related("partitions", "runtimes", "pauses__partition")
    )
    clusters_listing = make_listing(request, rows, sorts=SORTS, default="name")
    shown = list(clusters_listing.page.object_list)
    overdue = find_overdue_of_clusters(shown, followed={row.pk for row in shown if row.live_jobs})
    context = {"listing": clusters_listing, "filter": filters, "overdue": overdue}
    return render(request, "clusters/list.html", context)


def _count_jobs() -> dict[str, Combinable]:
    """Return the live jobs and operations of a cluster, and the jobs that wait, to annotate."""
    # Subqueries by the indexes on what has not ended: a join would read all jobs there were.
    jobs = Job.objects.exclude(state__in=Job.FINAL)
    operations = Operation.objects.filter(state__in=Operation.LIVE)
    live = _count_of_cluster(jobs.filter(state__in=Job.LIVE)) + _count_of_cluster(operations)
    waiting = _count_of_cluster(jobs.filter(state=Job.State.PLANNED))
    return {"live_jobs": live, "waiting_jobs": waiting}


def _count_of_cluster(rows: QuerySet[Any]) -> Coalesce:
    """Return the number of these jobs or operations that a cluster has."""
    counted = rows.filter(cluster=OuterRef("pk")).order_by().values("cluster")
    return Coalesce(Subquery(counted.annotate(count=Count("pk")).values("count")), 0)


@require_safe
def cluster(request: Request, pk: int) -> HttpResponse:
    """Show one cluster; jobs of experiments that the reader may not see are only counted."""
    clusters = Cluster.objects.visible_to(request.user).annotate(**_count_jobs())
    row: Any = get_object_or_404(clusters.select_related("jump_host", "credential"), pk=pk)
    pauses = Pause.objects.select_related("partition", "experiment")
    prefetch_related_objects([row], Prefetch("pauses", pauses))
    visible = Experiment.objects.visible_to(request.user)
    imported = row.experiments.filter(pk__in=visible.values("pk"), imported_at__isnull=False)
    alive = row.jobs.filter(state__in=Job.LIVE)
    context: dict[str, Any] = {
        "cluster": row,
        "hops": row.list_hops(),
        "live_jobs": row.live_jobs,
        "waiting_jobs": row.waiting_jobs,
        "imported": imported.select_related("owner")[:RECENT],
        "jobs": alive.filter(experiment__in=visible)
        .select_related("experiment", "workload")
        .defer("script", "experiment__plan")[:RECENT],
        "operations": Operation.objects.visible_to(request.user)
        .filter(cluster=row)
        .exclude(state__in=Operation.FINAL)
        .select_related(*NAMED_IN_OPERATIONS)
        .defer("script", "output_tail", "result", "code_copy__paths")[:RECENT],
        "findings": preflights.collect_findings(row),
        "tests": connection_tests.get_latest_tests(row.credential, row) if row.credential else None,
        "host_key": preflights.find_host_key(row),
        "pinned": compute_fingerprint(row.host_key),
        "pauses": [
            (pause, _count_held_jobs(row, pause))
            for pause in row.pauses.all()
            if pause.experiment_id is None or visible.filter(pk=pause.experiment_id).exists()
        ],
        "limits": describe_limits(row, timezone.now()),
        "refuses_places": is_question_refused(row),
        "may_check": not preflights.why_not_check(row, request.user),
        "may_pin": not why_not_write_setup_lines(request.user, row),
    }
    if context["waiting_jobs"]:
        waiting = row.jobs.filter(state=Job.State.PLANNED)
        context["paused_jobs"] = waiting.filter(experiment__paused_at__isnull=False).count()
        context["holds"] = find_holds([row], timezone.now())[row.pk]
    context["overdue_since"] = find_overdue(
        row, timezone.now(), is_followed=bool(context["live_jobs"])
    )
    context["refresh_seconds"] = _refresh_seconds(context)
    has_ever_had_a_rule = row.retention_days is not None or row.removal_checked_at is not None
    if not request.htmx and not row.recorded:
        context["aa_verdicts"] = list_last_aa_verdicts(row, request.user)
        context["unused_code"] = describe_unused_code(row, request.user)
    if not request.htmx and has_ever_had_a_rule:
        context["retention"] = summarize(row)
    template = "clusters/detail.html" + ("#live" if request.htmx else "")
    return render(request, template, context)


def _count_held_jobs(cluster: Any, pause: Pause) -> int:
    """Return how many jobs a pause keeps waiting: one of the whole cluster, all that wait there."""
    is_of_all = pause.partition_id is None and pause.experiment_id is None
    return int(cluster.waiting_jobs) if is_of_all else pause.jobs.count()


def _refresh_seconds(context: dict[str, Any]) -> int:
    """Return after how many seconds a cluster's page looks again, 0 if nothing goes on there."""
    host_key, tests, row = context["host_key"], context["tests"], context["cluster"]
    is_asked = (
        context["findings"].under_way
        or (tests and tests.under_way)
        or (host_key and not host_key.ended_at)
    )
    if is_asked:
        return 1
    goes_on = ("live_jobs", "waiting_jobs", "operations", "pauses")
    return 5 * bool(any(context[name] for name in goes_on) or row.last_error or row.preparing)


@require_POST
def check(request: Request, pk: int) -> HttpResponse:
    """Request a check; a worker does it, and the page shows the result when it is there."""
    row = visible_row(request, Cluster, pk)
    require(preflights.why_not_check(row, request.user) or preflights.why_not_ask(row))
    enqueue_visit(preflights.request_check(row, request.user))
    return redirect(reverse("cluster", args=[pk]) + "#checks")


@require_POST
def take_limits(request: Request, pk: int) -> HttpResponse:
    """Save the limits that the last check suggests."""
    row = changeable_row(request, Cluster, pk)
    if limits := preflights.take_suggested_limits(row, request.user):
        live, seconds = limits["max_live_jobs"], limits["poll_seconds"]
        messages.success(request, f"{row}: {live} live jobs, a status call every {seconds} s.")
    return redirect(reverse("cluster", args=[pk]) + "#checks")


@require_POST
def try_pause(request: Request, pk: int) -> HttpResponse:
    """Have the next visit try again what a site refused, without waiting any longer."""
    seen = Pause.objects.filter(cluster__in=Cluster.objects.visible_to(request.user))
    row = seen.select_related("cluster").filter(pk=pk).first()
    if row is None:  # it has ended meanwhile
        messages.info(request, "It is over: jobs are sent again.")
        return _back(request, None)
    require(preflights.why_not_check(row.cluster, request.user))
    try_now(row, request.user)
    enqueue_tick(row.cluster_id)
    messages.info(request, TRIES_AGAIN)
    return _back(request, row.cluster_id)


@require_POST
def try_cluster(request: Request, pk: int) -> HttpResponse:
    """Have a cluster visited at once whose last visits have failed."""
    row = visible_row(request, Cluster, pk)
    require(preflights.why_not_check(row, request.user))
    if end_back_off(row, request.user):
        enqueue_tick(row.pk)
        messages.info(request, TRIES_AGAIN)
    else:
        messages.info(request, "Nothing was changed: no failed visit keeps Tare waiting there.")
    return _back(request, row.pk)


def _back(request: Request, cluster_pk: int | None) -> HttpResponse:
    """Return to the page whose button was pressed."""
    experiment = request.POST.get("experiment", "")
    if experiment.isdecimal() and len(experiment) < 19:
        return redirect("experiment", int(experiment))
    return redirect("cluster", cluster_pk) if cluster_pk else redirect("clusters")


@require_POST
def test_connection(request: Request, pk: int) -> HttpResponse:
    """Request a log-in over every jump host, and nothing else."""
    row = get_object_or_404(
        Cluster.objects.visible_to(request.user).exclude(credential=None), pk=pk, transport="ssh"
    )
    require(preflights.why_not_check(row, request.user))
    assert row.credential
    enqueue_visit(connection_tests.request_test(row.credential, request.user, cluster=row))
    return redirect(reverse("cluster", args=[pk]) + "#connection")


@require_POST
def fetch_host_key(request: Request, pk: int) -> HttpResponse:
    """Request the key that the host shows, for a person to compare."""
    row = get_object_or_404(Cluster.objects.visible_to(request.user).exclude(host=""), pk=pk)
    require(why_not_change(request.user, row))
    enqueue_visit(preflights.request_host_key(row, request.user))
    return redirect(reverse("cluster", args=[pk]) + "#host-key")


@require_POST
def pin_host_key(request: Request, pk: int) -> HttpResponse:
    """Trust a host key that a person has compared by its fingerprint."""
    seen = HostKey.objects.filter(cluster__in=Cluster.objects.visible_to(request.user))
    row = get_object_or_404(seen.select_related("cluster"), pk=pk)
    require(why_not_write_setup_lines(request.user, row.cluster))
    try:
        preflights.pin(row, request.user)
    except preflights.NotPinned as problem:
        messages.error(request, str(problem))
    else:
        messages.success(request, f"Pinned {row.fingerprint}. Tare talks to no other host now.")
    return redirect(reverse("cluster", args=[row.cluster_id]) + "#host-key")
