"""Images: an image's passport, and what is on its way into the catalogue."""

from __future__ import annotations

from django.db.models import Count
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from dashboard.requests import Request
from experiments.models import Arrival, Cluster, Image


@require_GET
def image(request: Request, pk: int) -> HttpResponse:
    """An image's passport: what it is, what is in it, and where it lies."""
    row = get_object_or_404(Image.objects.visible_to(request.user).select_related("owner"), pk=pk)
    seen = row.staged.filter(cluster__in=Cluster.objects.visible_to(request.user))
    staged = seen.select_related("cluster").annotate(users=Count("environments"))
    packages = sorted(row.packages.items())
    return render(
        request, "catalogue/image.html", {"image": row, "staged": staged, "packages": packages}
    )


@require_POST
def dismiss(request: Request, pk: int) -> HttpResponse:
    """Put away what came of an arrival: it has been read."""
    row = get_object_or_404(Arrival.objects.told_to(request.user), pk=pk)
    if row.is_over:
        Arrival.objects.filter(pk=pk).update(dismissed_at=timezone.now())
    return redirect("catalogue")
