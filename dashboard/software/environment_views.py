"""Pages on environments: create, show, change and delete them."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.access.rights import for_makers_of, readable_keys, require
from dashboard.software.environment_forms import DECIDING, EnvironmentForm, typed
from dashboard.software.parity_views import prepare_inventory
from dashboard.typed_requests import Request
from experiments.access import audit, permissions
from experiments.models import Environment, Image
from experiments.software import environments

LIST = "?tab=environments"


@for_makers_of(Environment)
@require_http_methods(["GET", "POST"])
def new(request: Request) -> HttpResponse:
    """Choose the parts of an environment; each choice narrows the next ones."""
    if request.method == "GET" or _is_choosing(request):
        initial = typed(request.POST or request.GET)
        return _page(request, EnvironmentForm(initial=initial, user=request.user))
    form = EnvironmentForm(
        request.POST, instance=Environment(owner=request.user), user=request.user
    )
    return _saved(request, form) if form.is_valid() else _page(request, form)


@require_http_methods(["GET", "POST"])
def environment(request: Request, pk: int) -> HttpResponse:
    """Show an environment, and its form to those who may change it."""
    row = _readable(request, pk)
    problem = permissions.why_not_change(request.user, row)
    problem = problem or permissions.why_not_use_key_of(request.user, row.cluster)
    if row.recorded_tool or row.cluster.recorded:
        problem = "It was imported with its runs, and stays as it was."
    if problem:
        require(problem if request.method == "POST" else "")
        return _page(request, None, environment=row, problem=problem)
    if request.method == "GET":
        return _page(request, EnvironmentForm(instance=row, user=request.user), environment=row)
    if _is_choosing(request):
        form = EnvironmentForm(instance=row, initial=typed(request.POST), user=request.user)
        return _page(request, form, environment=row)
    form = EnvironmentForm(request.POST, instance=row, user=request.user)
    return _saved(request, form) if form.is_valid() else _page(request, form, environment=row)


@require_POST
def delete(request: Request, pk: int) -> HttpResponse:
    row = _readable(request, pk)
    require(permissions.why_not_change(request.user, row))
    if problem := environments.why_not_delete(row):
        messages.error(request, problem)
        return redirect("environment", pk=pk)
    audit.delete(request.user, row)
    messages.success(request, f"Deleted {row.name} on {row.cluster}.")
    return redirect(reverse("catalogue") + LIST)


def _readable(request: Request, pk: int) -> Environment:
    rows = Environment.objects.visible_to(request.user)
    return get_object_or_404(
        rows.select_related("cluster", "runtime", "staged_image__image", "owner"), pk=pk
    )


def _is_choosing(request: Request) -> bool:
    """Return whether only a choice was made that others depend on: nothing is validated yet."""
    return request.POST.get("action") == "look" or request.htmx.trigger_name in DECIDING


def _saved(request: Request, form: EnvironmentForm) -> HttpResponse:
    with audit.log_change(request.user, form.instance):
        saved = form.save()
    messages.success(request, f"{saved} is ready to be chosen for experiments on {saved.cluster}.")
    return redirect("environment", pk=saved.pk)


def _page(request: Request, form: EnvironmentForm | None, **context: Any) -> HttpResponse:
    row = context.get("environment")
    context |= {"form": form, "uses": environments.find_uses(row, request.user) if row else None}
    if row and not (row.recorded_tool or row.cluster.recorded):
        context |= prepare_inventory(row, request.user)
    if row and row.staged_image:
        keys = [row.staged_image.image_id]
        context["readable_images"] = readable_keys(request.user, Image, keys)
    fragment = "#parts" if request.htmx else ""
    return render(request, f"software/environment.html{fragment}", context)
