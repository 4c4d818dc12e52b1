"""The catalogue: images, workloads and environments."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import Prefetch, Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.access.rights import filter_readable_keys
from dashboard.images.image_filters import ImageFilter
from dashboard.lists import Sorts, WordFilter, make_listing
from dashboard.live_parts import answer_news_only
from dashboard.typed_requests import Request
from experiments.access.permissions import list_changeable_keys, may_add
from experiments.access.viewing import list_shown
from experiments.execution import live_marks
from experiments.images.search import find_packages
from experiments.models import (
    Cluster,
    DataCopy,
    DataSet,
    Environment,
    Image,
    ImageImport,
    Operation,
    StagedImage,
    User,
    Workload,
)
from experiments.models.catalogue import WorkloadQuerySet
from experiments.models.compiled_rows import CompiledReaderRows, CompiledRows
from experiments.natural_columns import pad_numbers, pad_workload
from experiments.planning.workloads import describe_settings
from runners.workloads import WORKLOADS

TABS = ("images", "workloads", "environments", "datasets")
NOT_LISTED = ("packages", "facts", "recipe")
"""Columns of an image that no list needs; the first two are large."""


class WorkloadFilter(WordFilter):
    """The filter of workloads; variants are those that sweeps have made."""

    variants = forms.ChoiceField(label="Variants", choices=[("", "hidden"), ("1", "shown")])

    def apply(self, rows: WorkloadQuerySet) -> WorkloadQuerySet:
        if not self.value_of("variants"):
            rows = rows.originals()
        return rows.filter(name__icontains=self.search_text)


LONG_OF_IMAGES = ("image__facts", "image__packages", "image__labels", "image__recipe")


def _select_imports(reader: User) -> QuerySet[ImageImport]:
    builds = Prefetch("operations", Operation.objects.only("state", "doing", "image_import_id"))
    rows = ImageImport.objects.listed_for(reader).select_related("cluster", "image", "owner")
    return rows.defer("lock", "conda_file", *LONG_OF_IMAGES).prefetch_related(builds)


IMPORTS = CompiledReaderRows(_select_imports)
PREPARING = CompiledRows(lambda: Cluster.objects.exclude(preparing=""))


def _mark_live_part(request: Request) -> str | None:
    return live_marks.CATALOGUE.read(request.user)


@require_safe
@answer_news_only(_mark_live_part)
def catalogue(request: Request) -> HttpResponse:
    """Show one tab of the catalogue; its fragment shows the image imports in progress."""
    tab = request.GET.get("tab", TABS[0])
    context: dict[str, Any] = {"tab": tab if tab in TABS else TABS[0]}
    context["preparing"] = list_shown(request.user, PREPARING.read())
    context["may_add_images"] = may_add(request.user, Image)
    if context["tab"] == "images":
        context["image_imports"] = IMPORTS.read(request.user)
        images = {row.image_id: row.image for row in context["image_imports"] if row.image}
        context["readable_images"] = {
            image.pk for image in list_shown(request.user, list(images.values()))
        }
        context["arriving"] = any(not row.is_over for row in context["image_imports"])
    if not request.htmx:
        parts = {
            "images": _images,
            "workloads": _workloads,
            "environments": _environments,
            "datasets": _data_sets,
        }
        context |= parts[context["tab"]](request)
        context["changeable"] = list_changeable_keys(request.user, context["listing"].page)
    return render(
        request, "catalogue/index.html" + ("#image_imports" if request.htmx else ""), context
    )


def _images(request: Request) -> dict[str, Any]:
    clusters = Cluster.objects.visible_to(request.user)
    filters = ImageFilter(request, Image.objects.visible_to(request.user), clusters)
    staged_forms = StagedImage.objects.exclude(state=StagedImage.State.REMOVED).filter(
        cluster__in=clusters
    )
    staged = Prefetch("staged", staged_forms.select_related("cluster"))
    rows = filters.apply().defer(*NOT_LISTED).select_related("owner").prefetch_related(staged)
    sorts: Sorts = {
        "reference": pad_numbers("reference"),
        "python": pad_numbers("python_version"),
        "framework": "framework",
        "cuda": pad_numbers("cuda_version"),
        "size": "size_bytes",
        "created": "created_at",
    }
    images_listing = make_listing(request, rows, sorts=sorts, default="reference")
    packages = (
        find_packages(images_listing.page, filters.search_text) if filters.search_text else {}
    )
    return {"listing": images_listing, "filter": filters, "packages_found": packages}


def _workloads(request: Request) -> dict[str, Any]:
    filters = WorkloadFilter(request)
    rows = filters.apply(Workload.objects.visible_to(request.user)).select_related(
        "owner", "parent"
    )
    sorts: Sorts = {"name": pad_workload(), "kind": "kind", "limit": "time_limit_seconds"}
    workloads_listing = make_listing(request, rows, sorts=sorts, default="name")
    changed_parameters = {
        row.pk: describe_settings(row).differing for row in workloads_listing.page
    }
    return {
        "listing": workloads_listing,
        "filter": filters,
        "launchable": WORKLOADS,
        "differing": changed_parameters,
    }


def _environments(request: Request) -> dict[str, Any]:
    filters = WordFilter(request)
    visible = Environment.objects.originals().visible_to(request.user)
    rows = visible.filter(name__icontains=filters.search_text)
    sorts: Sorts = {
        "name": pad_numbers("name"),
        "cluster": pad_numbers("cluster__name"),
        "runtime": "runtime__kind",
    }
    environments_listing = make_listing(
        request,
        rows.select_related("cluster", "runtime", "staged_image__image").defer(
            *(f"staged_image__image__{name}" for name in NOT_LISTED)
        ),
        sorts=sorts,
        default="name",
    )
    keys = (row.staged_image.image_id for row in environments_listing.page if row.staged_image)
    readable = filter_readable_keys(request.user, Image, keys)
    return {"listing": environments_listing, "filter": filters, "readable_images": readable}


def _data_sets(request: Request) -> dict[str, Any]:
    filters = WordFilter(request)
    words, rows = filters.search_text, DataSet.objects.visible_to(request.user)
    rows = rows.filter(
        Q(name__icontains=words) | Q(licence__icontains=words) | Q(digest__icontains=words)
    )
    seen = Cluster.objects.visible_to(request.user).values("pk")
    copies = DataCopy.objects.filter(cluster__in=seen).select_related("cluster")
    sorts = {"name": "name", "licence": "licence", "files": "files", "size": "size_bytes"}
    data_sets = rows.select_related("owner").prefetch_related(Prefetch("copies", copies))
    data_sets_listing = make_listing(request, data_sets, sorts=sorts, default="name")
    return {"listing": data_sets_listing, "filter": filters}
