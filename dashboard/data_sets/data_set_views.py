"""Data sets: what is known of one, where copies of it lie, and the requests to check these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.access.rights import changeable_row, require, require_maker_of, visible_row
from dashboard.catalogue import row_changes
from dashboard.data_sets.data_set_forms import CopyForm, DataSetForm, NewDataSetForm
from dashboard.typed_requests import Request
from experiments.access import permissions
from experiments.data_sets import copies
from experiments.images import staging
from experiments.models import Cluster, DataCopy, DataSet, Experiment, Operation, Workload

LARGE = ("script", "output_tail", "result")
HISTORY = 20


@require_maker_of(DataSet)
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: Request) -> HttpResponse:
    """Register a data set by a folder or file that lies on a cluster."""
    sent = request.POST if request.method == "POST" else None
    form = NewDataSetForm(sent, instance=DataSet(owner=request.user), user=request.user)
    if sent is not None and (row := form.save_if_valid()):
        messages.success(request, f"{row} is in the catalogue; its files are being read.")
        return redirect(row)
    return render(request, "data_sets/form.html", {"form": form, "is_new": True})


@require_safe
def data_set(request: Request, pk: int) -> HttpResponse:
    """Show a data set; its fragment reloads while a copy is read."""
    row = visible_row(request, DataSet, pk, "owner")
    return _page(request, row, "#live" if request.htmx else "")


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: Request, pk: int) -> HttpResponse:
    """Show the form of what is said of a data set, and store its changes."""
    row = changeable_row(request, DataSet, pk, "owner")
    form = DataSetForm(request.POST or None, instance=row, user=request.user)
    if request.method == "POST" and form.is_valid():
        return row_changes.save(request, form, f"{row} is changed.")
    return render(request, "data_sets/form.html", {"form": form, "data_set": row})


@require_POST
def delete(request: Request, pk: int) -> HttpResponse:
    """Delete a data set, or say why it cannot be deleted yet; no file is touched."""
    row = changeable_row(request, DataSet, pk, "owner")
    why_not = copies.why_not_delete(row)
    return row_changes.delete(request, row, why_not, f"Deleted {row}. Its files stay.")


@require_POST
def add_copy(request: Request, pk: int) -> HttpResponse:
    """Have a copy on another cluster read."""
    row = visible_row(request, DataSet, pk, "owner")
    require(permissions.why_not_add(request.user, DataCopy))
    form = CopyForm(request.POST, user=request.user, data_set=row)
    if form.request_copy_if_valid() is None:
        return _page(request, row, copy_form=form)
    messages.success(request, "Its files are being read.")
    return redirect(row)


@require_POST
def check(request: Request, pk: int) -> HttpResponse:
    """Have sizes and times of a copy's files compared with those of the last reading."""
    return _request(request, pk, lambda row: copies.check(row, request.user))


@require_POST
def read(request: Request, pk: int) -> HttpResponse:
    """Have all files of a copy read again."""
    return _request(request, pk, lambda row: copies.check(row, request.user, in_full=True))


@require_POST
def forget(request: Request, pk: int) -> HttpResponse:
    """Take a copy out of the catalogue; its files stay."""
    return _request(request, pk, lambda row: _forget(request, row))


def _forget(request: Request, row: DataCopy) -> None:
    require(permissions.why_not_change(request.user, row))
    copies.forget(row, request.user)


def _request(request: Request, pk: int, ask: Callable[[DataCopy], object]) -> HttpResponse:
    seen = DataSet.objects.visible_to(request.user)
    rows = DataCopy.objects.filter(data_set__in=seen.values("pk"))
    row = get_object_or_404(rows.select_related("data_set__owner", "cluster"), pk=pk)
    require(permissions.why_not_add(request.user, DataCopy))
    try:
        ask(row)
    except copies.NotDone as refusal:
        messages.error(request, str(refusal))
    return redirect(row.data_set)


def _page(request: Request, row: DataSet, fragment: str = "", **forms: Any) -> HttpResponse:
    seen = Cluster.objects.visible_to(request.user).values("pk")
    placed = list(row.copies.filter(cluster__in=seen).select_related("cluster"))
    about = Operation.objects.filter(data_copy__in=placed).select_related(
        "cluster", "data_copy__data_set", "data_copy__cluster", "owner"
    )
    alive = list(about.exclude(state__in=Operation.FINAL).defer("script", "result"))
    context: dict[str, Any] = {
        "data_set": row,
        "copies": placed,
        "operations_alive": alive,
        "busy": {operation.data_copy_id for operation in alive},
        "operations_ended": list(about.filter(state__in=Operation.FINAL).defer(*LARGE)[:HISTORY]),
        "cancellable": staging.list_cancellable_keys(alive, request.user),
        "usable": set(Cluster.objects.usable_by(request.user).values_list("pk", flat=True)),
        "removable": permissions.list_changeable_keys(request.user, placed),
        "may_add": permissions.may_add(request.user, DataCopy),
    }
    if not fragment:
        workloads = Workload.objects.visible_to(request.user).originals().filter(data_set=row)
        of_it = Workload.objects.filter(data_set=row).values("pk")
        members = Experiment.workloads.through._default_manager.filter(workload__in=of_it)
        readable = Experiment.objects.visible_to(request.user).without_plan()
        context |= {
            "workloads": list(workloads),
            "experiments": list(
                readable.filter(pk__in=members.values("experiment")).order_by("-pk")[:100]
            ),
            "may_change": permissions.may_change(request.user, row),
            "why_not_delete": copies.why_not_delete(row),
            "copy_form": CopyForm(user=request.user, data_set=row),
            **forms,
        }
    return render(request, f"data_sets/detail.html{fragment}", context)
