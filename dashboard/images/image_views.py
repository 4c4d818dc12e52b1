"""Images: an image's software inventory and its staged forms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.http import content_disposition_header
from django.utils.text import slugify
from django.views.decorators.http import require_POST, require_safe

from dashboard.access.rights import changeable_row, require, visible_row
from dashboard.images import inventory_page
from dashboard.images.image_forms import LabelsForm, StageForm, select_clusters
from dashboard.images.staged import list_forms, prepare_history
from dashboard.live_parts import answer_news_only
from dashboard.typed_requests import Request
from experiments.access import permissions
from experiments.access.viewing import may_view
from experiments.execution import live_marks
from experiments.images import advisories, deleting, sbom_documents, staging
from experiments.models import Cluster, Image, StagedImage, User
from experiments.models.compiled_rows import KEY, CompiledRows, select_json
from experiments.models.images import SignatureState
from experiments.software.building import list_twins
from experiments.software.own_trees import list_trees

SIGNATURE_MARKS = {
    SignatureState.SIGNED: "yes",
    SignatureState.MISMATCH: "no",
    SignatureState.NONE: "planned",
    SignatureState.UNCHECKED: "planned",
}


LONG = ("facts", "labels", "packages")
LIVE_PART = CompiledRows(
    lambda pk: (
        Image.objects.filter(pk=pk)
        .defer(*LONG)
        .annotate(system=select_json("experiments_image.facts->'system'"))
        .order_by()
    ),
    KEY,
)
"""An image without its inventory, which is long."""


def _find_live_part(reader: User, pk: int) -> Image:
    """Return an image with those of its facts that are about the system; Http404 if hidden."""
    row: Any = LIVE_PART.find(pk)
    if row is None or not may_view(reader, row):
        raise Http404
    row.facts = {"system": row.system or {}}
    return cast(Image, row)


def _mark_live_part(request: Request, pk: int) -> str | None:
    return None if "packages" in request.GET else live_marks.IMAGE.read(request.user, pk)


@require_safe
@answer_news_only(_mark_live_part)
def image(request: Request, pk: int) -> HttpResponse:
    """Show an image's software inventory; its fragments are the staged forms and the packages."""
    if request.htmx and "packages" not in request.GET:
        row = _find_live_part(request.user, pk)
        context = _prepare_live_part(row, request.user, Cluster.objects.usable_by(request.user))
        return render(request, "images/detail.html#live", context)
    row = visible_row(request, Image, pk, "owner")
    if request.htmx and "packages" in request.GET:
        return render(request, "images/detail.html#packages", _packages(request, row))
    return _page(request, row)


@require_safe
def bill_of_materials(request: Request, pk: int, kind: str) -> HttpResponse:
    """Send an image's software as a file, of one of the kinds of `sbom_documents.WRITERS`."""
    row = visible_row(request, Image, pk)
    content = sbom_documents.WRITERS[kind](row)
    if content is None:
        raise Http404("The image was not inspected yet.")
    last = row.reference.partition("@")[0].rpartition("/")[2]
    stem = slugify(last.replace(":", "-")) or "image"
    name = f"{stem}-{row.short_digest}.{kind}.json"
    response = HttpResponse(content, content_type="application/json")
    response["Content-Disposition"] = content_disposition_header(True, name)
    return response


@require_POST
def stage(request: Request, pk: int) -> HttpResponse:
    """Request a staged form of the image on a cluster."""
    row = visible_row(request, Image, pk, "owner")
    require(permissions.why_not_add(request.user, StagedImage))
    form = StageForm(request.POST, image=row, user=request.user)
    staged = form.request_staging_if_valid()
    if staged is None:
        return _page(request, row, stage_form=form)
    messages.success(request, f"Asked for {staged.form} on {staged.cluster}.")
    return redirect(row)


@require_POST
def labels(request: Request, pk: int) -> HttpResponse:
    """Save the labels of the image."""
    row = changeable_row(request, Image, pk, "owner")
    form = LabelsForm(request.POST, instance=row)
    if not form.is_valid():
        return _page(request, row, labels_form=form)
    form.keep(request.user)
    messages.success(request, "The labels are kept.")
    return redirect(row)


@require_POST
def delete(request: Request, pk: int) -> HttpResponse:
    """Take it out of the catalogue, if nothing rests on it."""
    row = changeable_row(request, Image, pk, "owner")
    if problem := deleting.why_not_delete(row):
        messages.error(request, f"Not deleted. {problem}")
        return redirect(row)
    deleting.delete(row, request.user)
    messages.success(request, f"Deleted {row.reference}.")
    return redirect("catalogue")


@require_POST
def verify(request: Request, pk: int) -> HttpResponse:
    """Have a staged form verified again."""
    row = _staged(request, pk)
    require(permissions.why_not_add(request.user, StagedImage))
    try:
        staging.verify(row, request.user)
    except staging.NotDone as refusal:
        messages.error(request, str(refusal))
    return redirect(row.image)


@require_POST
def unstage(request: Request, pk: int) -> HttpResponse:
    """Have a staged form removed from its cluster."""
    row = _staged(request, pk)
    require(permissions.why_not_change(request.user, row))
    try:
        staging.unstage(row, request.user)
    except staging.NotDone as refusal:
        messages.error(request, str(refusal))
    return redirect(row.image)


def _staged(request: Request, pk: int) -> StagedImage:
    seen = Image.objects.visible_to(request.user)
    rows = StagedImage.objects.filter(image__in=seen.values("pk"))
    return get_object_or_404(rows.select_related("image", "cluster"), pk=pk)


def _prepare_live_part(row: Image, reader: User, clusters: Iterable[Cluster]) -> dict[str, Any]:
    """Return what changes while something is done with an image.

    `clusters`: those that the reader may use, read at most once: most images have no lock and no
    tree of their own.
    """
    staged_forms = list_forms(row, reader)
    history = prepare_history(row, reader)
    is_changing = any(form.is_alive for form in staged_forms)
    return {
        "image": row,
        "forms": staged_forms,
        **history,
        "matches": list_twins(row, clusters),
        "trees": list_trees(row, clusters),
        "alive": is_changing or bool(history["operations_alive"]),
    }


def _page(request: Request, row: Image, **forms: Any) -> HttpResponse:
    clusters = select_clusters(request.user)
    context = _prepare_live_part(row, request.user, clusters)
    context |= _packages(request, row)
    context["signature_mark"] = SIGNATURE_MARKS[SignatureState(row.signature_state)]
    if row.facts.get("packages"):
        context |= {"known": advisories.find_vulnerabilities(row), "covers": advisories.COVERS}
    context["inventory"] = list(inventory_page.describe_image(row))
    context["may_change"] = permissions.may_change(request.user, row)
    if context["may_change"]:
        context["why_not_delete"] = deleting.why_not_delete(row)
    if permissions.may_add(request.user, StagedImage):
        staged = [form.row for form in context["forms"]]
        context["stage_form"] = StageForm(
            image=row, user=request.user, clusters=clusters, staged=staged
        )
    context["labels_form"] = LabelsForm(instance=row)
    return render(request, "images/detail.html", context | forms)


def _packages(request: Request, row: Image) -> dict[str, Any]:
    search_text = request.GET.get("packages", "")
    return {
        "image": row,
        "packages": inventory_page.search_packages(row, search_text),
        "search_text": search_text,
    }
