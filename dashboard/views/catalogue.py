"""The catalogue: images, workloads and environments."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods

from dashboard.filters import Listing, WordFilter, listing
from dashboard.requests import Request
from dashboard.workload_forms import KindForm, WorkloadForm
from experiments.models import Cluster, Environment, Image, Workload
from runners.workloads import WORKLOADS

TABS = ("images", "workloads", "environments")


@require_GET
def catalogue(request: Request) -> HttpResponse:
    tab = request.GET.get("tab", TABS[0])
    filters = WordFilter(request)
    context: dict[str, Any] = {"tab": tab if tab in TABS else TABS[0], "filter": filters}
    rows = {"images": _images, "workloads": _workloads, "environments": _environments}
    context["launchable"] = WORKLOADS
    context["preparing"] = Cluster.objects.exclude(preparing="")
    context["listing"] = rows[context["tab"]](request, filters.words)
    return render(request, "catalogue/index.html", context)


def _images(request: Request, words: str) -> Listing:
    rows = Image.objects.filter(Q(reference__icontains=words) | Q(digest__icontains=words))
    sorts = {"reference": "reference", "size": "size_bytes", "created": "created_at"}
    found = rows.prefetch_related("staged__cluster")
    return listing(request, found, sorts=sorts, default="reference")


def _workloads(request: Request, words: str) -> Listing:
    visible = Workload.objects.visible_to(request.user)
    rows = visible.filter(name__icontains=words).select_related("owner")
    sorts = {"name": "name", "kind": "kind", "limit": "time_limit_seconds"}
    return listing(request, rows, sorts=sorts, default="name")


def _environments(request: Request, words: str) -> Listing:
    clusters = Cluster.objects.visible_to(request.user)
    rows = Environment.objects.filter(name__icontains=words, cluster__in=clusters).select_related(
        "cluster", "runtime", "staged_image__image"
    )
    sorts = {"name": "name", "cluster": "cluster__name", "runtime": "runtime__kind"}
    return listing(request, rows, sorts=sorts, default="name")


@require_GET
def image(request: Request, pk: int) -> HttpResponse:
    """An image's passport: what it is, what is in it, and where it lies."""
    row = get_object_or_404(Image.objects.select_related("owner"), pk=pk)
    staged = row.staged.select_related("cluster").annotate(users=Count("environments"))
    packages = sorted(row.packages.items())
    return render(
        request, "catalogue/image.html", {"image": row, "staged": staged, "packages": packages}
    )


@require_http_methods(["GET", "POST"])
def workload_new(request: Request) -> HttpResponse:
    """Choose a kind, then fill in that kind's own parameters."""
    kind = request.GET.get("kind", next(iter(WORKLOADS)))
    kind = kind if kind in WORKLOADS else next(iter(WORKLOADS))
    form = WorkloadForm(request.POST or None, instance=Workload(owner=request.user), kind=kind)
    if request.method == "POST" and form.is_valid():
        workload = form.save()
        messages.success(request, f"{workload} is in the catalogue.")
        return redirect(reverse("catalogue") + "?tab=workloads")
    context = {"form": form, "kinds": KindForm(initial={"kind": kind}), "kind": WORKLOADS[kind]}
    return render(request, "catalogue/workload_form.html", context)
