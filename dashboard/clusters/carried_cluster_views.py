"""Adding a machine that Tare cannot reach: one form, for nothing can be read there."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from dashboard.access.rights import require_maker_of
from dashboard.clusters.carried_cluster_forms import CarriedClusterForm
from dashboard.typed_requests import Request
from experiments.clusters.by_hand_clusters import add_by_hand
from experiments.clusters.cluster_drafts import NotDone
from experiments.models import Cluster


@require_maker_of(Cluster)
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: Request) -> HttpResponse:
    """Store a machine as a person describes it."""
    form = CarriedClusterForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            row = add_by_hand(form.make_cluster(request.user), form.make_partition(), request.user)
        except NotDone as problem:
            form.add_error("name", str(problem))
        else:
            messages.success(request, f"{row} is added. Make an environment of it next.")
            return redirect("cluster", row.pk)
    return render(request, "clusters/new/by_hand.html", {"form": form})
