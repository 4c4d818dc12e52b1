"""Pages on environments: create, show, change and delete them."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.access.rights import (
    changeable_row,
    filter_readable_keys,
    require,
    require_maker_of,
    visible_row,
)
from dashboard.catalogue import row_changes
from dashboard.software.environment_forms import DECIDING, EnvironmentForm, read_typed_values
from dashboard.software.parity_views import prepare_inventory
from dashboard.typed_requests import Request
from experiments.access import permissions
from experiments.models import Environment, Image
from experiments.presets.aa_drafts import list_partitions_to_offer
from experiments.software import environments

SHOWN = ("cluster", "runtime", "staged_image__image", "owner")
"""What the page of an environment shows beside it."""


@require_maker_of(Environment)
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: Request) -> HttpResponse:
    """Choose the parts of an environment; each choice narrows the next ones."""
    if request.method != "POST" or _is_choosing(request):
        initial = read_typed_values(request.POST or request.GET)
        return _page(request, EnvironmentForm(initial=initial, user=request.user))
    form = EnvironmentForm(
        request.POST, instance=Environment(owner=request.user), user=request.user
    )
    return _save(request, form) if form.is_valid() else _page(request, form)


@require_http_methods(["GET", "HEAD", "POST"])
def environment(request: Request, pk: int) -> HttpResponse:
    """Show an environment, and its form to those who may change it."""
    row = visible_row(request, Environment, pk, *SHOWN)
    if row.copy_of_id:
        return redirect("environment", pk=row.copy_of_id)
    problem = permissions.why_not_change(request.user, row)
    problem = problem or permissions.why_not_use_key_of(request.user, row.cluster)
    if problem := environments.why_not_edit(row) or problem:
        require(problem if request.method == "POST" else "")
        return _page(request, None, environment=row, problem=problem)
    if request.method != "POST":
        return _page(request, EnvironmentForm(instance=row, user=request.user), environment=row)
    if _is_choosing(request):
        form = EnvironmentForm(
            instance=row, initial=read_typed_values(request.POST), user=request.user
        )
        return _page(request, form, environment=row)
    form = EnvironmentForm(request.POST, instance=row, user=request.user)
    return _save(request, form) if form.is_valid() else _page(request, form, environment=row)


@require_POST
def delete(request: Request, pk: int) -> HttpResponse:
    """Delete an environment, or say why it cannot be deleted yet."""
    row = changeable_row(request, Environment, pk, "cluster")
    why_not = environments.why_not_delete(row)
    return row_changes.delete(request, row, why_not, f"Deleted {row.name} on {row.cluster}.")


def _is_choosing(request: Request) -> bool:
    """Return whether only a choice was made that others depend on: nothing is validated yet."""
    return request.POST.get("action") == "look" or request.htmx.trigger_name in DECIDING


def _save(request: Request, form: EnvironmentForm) -> HttpResponse:
    row = form.instance
    message = f"{row} is ready to be chosen for experiments on {row.cluster}."
    return row_changes.save(request, form, message)


def _page(request: Request, form: EnvironmentForm | None, **context: Any) -> HttpResponse:
    row = context.get("environment")
    context |= {"form": form, "uses": environments.find_uses(row, request.user) if row else None}
    if row and not (row.recorded_tool or row.cluster.recorded):
        context |= prepare_inventory(row, request.user)
        if context["may_inspect"]:
            context["aa_partitions"] = list_partitions_to_offer(row.cluster)
    if row and row.staged_image:
        keys = [row.staged_image.image_id]
        context["readable_images"] = filter_readable_keys(request.user, Image, keys)
    fragment = "#parts" if request.htmx else ""
    return render(request, f"software/environment.html{fragment}", context)
