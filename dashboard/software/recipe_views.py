"""Images built from a recipe, and the bare-metal environments that match them."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.access.rights import require, visible_row
from dashboard.software.build_file_forms import BuildFileForm
from dashboard.software.recipe_forms import RecipeForm
from dashboard.typed_requests import Request, parse_whole_number
from experiments.access.permissions import why_not_add
from experiments.images.staging import NotDone
from experiments.models import Cluster, Environment, Image, ImageImport
from experiments.software import building, own_trees


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: Request) -> HttpResponse:
    """Request an image build; the catalogue shows its progress."""
    require(why_not_add(request.user, Image))
    initial = {"base": request.GET.get("base")}
    posted = (request.POST, request.FILES) if request.method == "POST" else ()
    form = RecipeForm(*posted, user=request.user, initial=initial)
    image_import = form.request_build_if_valid() if posted else None
    if image_import is None:
        return render(request, "software/recipe_form.html", {"form": form})
    return _show_build(request, image_import)


@require_http_methods(["GET", "HEAD", "POST"])
def new_from_file(request: Request) -> HttpResponse:
    """Request the build of a Dockerfile or a definition file."""
    require(why_not_add(request.user, Image))
    posted = (request.POST, request.FILES) if request.method == "POST" else ()
    form = BuildFileForm(*posted, user=request.user)
    image_import = form.request_build_if_valid() if posted else None
    if image_import is None:
        return render(request, "software/build_file_form.html", {"form": form})
    return _show_build(request, image_import)


def _show_build(request: Request, image_import: ImageImport) -> HttpResponse:
    messages.success(
        request,
        f"{image_import.cluster} was asked to build {image_import}. "
        "When it is done, it is in the catalogue.",
    )
    return redirect("operation", pk=image_import.operations.values_list("pk", flat=True).get())


@require_POST
def match(request: Request, pk: int) -> HttpResponse:
    """Request the bare-metal environment that matches an image's lock file."""
    require(why_not_add(request.user, Environment))
    image = visible_row(request, Image, pk)
    clusters = Cluster.objects.usable_by(request.user)
    cluster = get_object_or_404(clusters, pk=parse_whole_number(request.POST.get("cluster")))
    try:
        building.request_match(image, cluster, request.user)
        messages.success(
            request,
            f"{cluster} was asked for the matching bare-metal environment. It can be chosen for an "
            "experiment once it is there and was inspected.",
        )
    except NotDone as refusal:
        messages.error(request, f"Not made. {refusal}")
    return redirect(f"{image.get_absolute_url()}#match")


@require_POST
def make_tree(request: Request, pk: int) -> HttpResponse:
    """Request the environment of an image's own files, outside of a container."""
    require(why_not_add(request.user, Environment))
    image = visible_row(request, Image, pk)
    clusters = Cluster.objects.usable_by(request.user)
    cluster = get_object_or_404(clusters, pk=parse_whole_number(request.POST.get("cluster")))
    try:
        own_trees.request_tree(image, cluster, request.user)
        messages.success(
            request,
            f"{cluster} was asked to unpack {image} for use outside of a container. The "
            "environment can be chosen for an experiment once it is there and was inspected.",
        )
    except NotDone as refusal:
        messages.error(request, f"Not made. {refusal}")
    return redirect(f"{image.get_absolute_url()}#tree")
