"""Clusters: whether they answer, what they have, and what of ours runs there."""

from __future__ import annotations

from django.db.models import Count, Q
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from dashboard.filters import WordFilter, listing
from dashboard.requests import Request
from experiments.models import Cluster, Experiment, Job

SORTS = {"name": "name", "contact": "last_seen_at"}
RECENT = 20


@require_GET
def clusters(request: Request) -> HttpResponse:
    filters = WordFilter(request)
    live = Count("jobs", filter=Q(jobs__state__in=Job.LIVE))
    waiting = Count("jobs", filter=Q(jobs__state=Job.State.PLANNED))
    rows = (
        Cluster.objects.filter(Q(name__icontains=filters.words) | Q(host__icontains=filters.words))
        .annotate(live_jobs=live, waiting_jobs=waiting)
        .prefetch_related("partitions", "runtimes")
    )
    found = listing(request, rows, sorts=SORTS, default="name")
    return render(request, "clusters/list.html", {"listing": found, "filter": filters})


@require_GET
def cluster(request: Request, pk: int) -> HttpResponse:
    """One cluster; jobs of experiments that the reader may not see are only counted."""
    row = get_object_or_404(Cluster.objects.select_related("jump_host", "owner"), pk=pk)
    visible = Experiment.objects.visible_to(request.user)
    alive = row.jobs.filter(state__in=Job.LIVE)
    context = {
        "cluster": row,
        "live_jobs": alive.count(),
        "waiting_jobs": row.jobs.filter(state=Job.State.PLANNED).count(),
        "jobs": alive.filter(experiment__in=visible).select_related("experiment", "workload")[
            :RECENT
        ],
    }
    template = "clusters/detail.html" + ("#live" if request.htmx else "")
    return render(request, template, context)
