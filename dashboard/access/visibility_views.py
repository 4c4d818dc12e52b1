"""The page that decides who can view a row, for everything that can be shared."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from dashboard.access import link_views
from dashboard.access.rights import changeable_row
from dashboard.access.visibility_forms import make_visibility_form, save_visibility
from dashboard.typed_requests import Request
from experiments.execution.link_actions import make_link
from experiments.models import (
    Cluster,
    DataSet,
    Environment,
    Experiment,
    Image,
    PublishedTable,
    ShareLink,
    Study,
    Workload,
)
from experiments.models.visibility import Visibility

KINDS: dict[str, Any] = {
    "experiment": Experiment,
    "study": Study,
    "table": PublishedTable,
    "cluster": Cluster,
    "image": Image,
    "environment": Environment,
    "workload": Workload,
    "dataset": DataSet,
}


@require_http_methods(["GET", "HEAD", "POST"])
def change_visibility(request: Request, kind: str, pk: int) -> HttpResponse:
    """Show and save who can view a row; experiments can be shared after their launch, too.

    After "everybody with the link" was chosen, this page shows the link.
    """
    if kind not in KINDS:
        raise Http404
    row = changeable_row(request, KINDS[kind], pk)
    if isinstance(row, Workload) and row.parent_id:  # who sees a workload sees its variants
        return redirect("visibility", kind, row.parent_id)
    form = make_visibility_form(KINDS[kind])(request.POST or None, instance=row, user=request.user)
    if request.method == "POST" and form.is_valid():
        save_visibility(form, request.user)
        messages.success(request, f"Visibility of {row}: {row.visibility_text}.")
        if row.visibility == Visibility.PUBLIC:
            if not ShareLink.objects.of(row).valid().exists():
                make_link(row, request.user)
            return redirect("visibility", kind, pk)
        return redirect(_home(kind, row))
    context = {"form": form, "row": row, "kind": kind, "home": _home(kind, row)}
    context |= link_views.links_of(request, kind, row)
    return render(request, "access/visibility/form.html", context)


def _home(kind: str, row: Any) -> str:
    """Return the address of the page that shows the row."""
    if kind in ("cluster", "image", "experiment", "study", "table", "workload"):
        return reverse(kind, args=[row.pk])
    return f"{reverse('catalogue')}?tab={kind}s"
