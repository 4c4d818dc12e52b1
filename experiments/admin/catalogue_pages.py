"""Administration of the catalogue: images, environments and workloads."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest

from experiments.access.permissions import may_change, why_not_use_keys_of
from experiments.access.visibility_fields import VisibilityFields
from experiments.admin.base import Owned, Ruled, RuledInline
from experiments.images.signatures import NoKey, compute_key_fingerprint
from experiments.models import (
    Cluster,
    DataCopy,
    DataSet,
    Environment,
    Image,
    StagedImage,
    TrustedKey,
    User,
    Workload,
)
from experiments.planning.variants import lock_workloads, refresh_variants
from experiments.planning.workloads import why_not_edit
from experiments.software import environments
from runners.runtimes import RUNTIMES
from runners.workloads import KNOWN_WORKLOADS, WORKLOADS, ParameterError

MEASURED = ("name", "kind", "parameters", "data_set", "data_proof", "time_limit_seconds")
"""What a workload has to keep that a launched experiment holds."""


class StagedImageInline(RuledInline):
    """What a centre has installed already; the rest is Tare's to write."""

    model = StagedImage
    fields = (("cluster", "format", "mode"), "path", ("sha256", "size_bytes"), "told")
    readonly_fields = ("told",)

    @admin.display(description="State")
    def told(self, row: StagedImage) -> str:
        made = "made by Tare" if row.made_here else "registered by hand"
        return f"{row.get_state_display()}, {made}" if row.pk else "registered by hand"

    def get_queryset(self, request: HttpRequest) -> QuerySet[StagedImage]:
        seen = Cluster.objects.visible_to(request.user)
        return super().get_queryset(request).filter(cluster__in=seen)


class ImageForm(VisibilityFields, forms.ModelForm):  # type: ignore[type-arg]
    """An image, and who may read it."""


@admin.register(Image)
class ImageAdmin(Owned):
    """The administration's pages of images."""

    form = ImageForm
    inlines = (StagedImageInline,)
    readonly_fields: ClassVar[Any] = (*Owned.readonly_fields, "content_sha256", "tree", "facts")
    list_display = ("reference", "short_digest", "framework", "size_bytes", "owner")
    search_fields = ("reference", "digest")


class TrustedKeyForm(forms.ModelForm):  # type: ignore[type-arg]
    """A public key of cosign, which must be one."""

    def clean_pem(self) -> str:
        pem: str = self.cleaned_data["pem"]
        try:
            self.instance.fingerprint = compute_key_fingerprint(pem)
        except NoKey as problem:
            raise ValidationError(str(problem)) from None
        return pem


@admin.register(TrustedKey)
class TrustedKeyAdmin(Ruled):
    """The administration's pages of public keys by which images are signed."""

    form = TrustedKeyForm
    fields = ("name", "prefix", "pem", "fingerprint")
    readonly_fields = ("fingerprint",)
    list_display = ("name", "prefix", "fingerprint")


def list_modes() -> list[tuple[str, object]]:
    """Every runtime's modes under its name; those that have the same stand together."""
    labels_by_modes: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for kind in RUNTIMES.values():
        if kind.modes:
            labels_by_modes.setdefault(tuple(kind.modes.items()), []).append(kind.label)
    groups = [
        (" and ".join(labels), [(mode, f"{mode}: {what}") for mode, what in rows])
        for rows, labels in labels_by_modes.items()
    ]
    return [("", "the runtime's own choice"), *groups]


class EnvironmentForm(VisibilityFields, forms.ModelForm):  # type: ignore[type-arg]
    """The administration's form of an environment."""

    by: ClassVar[User]
    mode = forms.ChoiceField(choices=list_modes, required=False)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        cluster = cleaned.get("cluster")
        stored = self.instance.cluster if self.instance.pk else None
        for affected in filter(None, (cluster, stored)):
            if why_not := why_not_use_keys_of(self.by, affected):
                self.add_error(None, why_not)
            elif "setup_lines" in self.changed_data and not may_change(self.by, affected):
                self.add_error(
                    "setup_lines", "They are shell: an administrator of the cluster writes them."
                )
        problems = environments.list_refusals(
            cluster=cluster,
            runtime=cleaned.get("runtime"),
            staged=cleaned.get("staged_image"),
            mode=cleaned.get("mode", ""),
            binds=cleaned.get("binds") or [],
        )
        for name, message in problems.items():
            self.add_error(name, message)
        return cleaned


@admin.register(Environment)
class EnvironmentAdmin(Owned):
    """The administration's pages of environments."""

    form = EnvironmentForm
    list_display = ("name", "cluster", "runtime", "staged_image", "owner")
    list_filter = ("cluster",)
    list_select_related = (
        *("cluster", "runtime__cluster", "owner"),
        *("staged_image__image", "staged_image__cluster"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Environment]:
        """Leave out A/A copies, which are changed with their environments alone."""
        return super().get_queryset(request).filter(copy_of=None)


class WorkloadForm(VisibilityFields, forms.ModelForm):  # type: ignore[type-arg]
    """The administration's form of a workload."""

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("kind") and isinstance(cleaned.get("parameters"), dict):
            try:
                kind = KNOWN_WORKLOADS[cleaned["kind"]]
                cleaned["parameters"] = kind.clean(cleaned["parameters"])
            except ParameterError as problem:
                self.add_error("parameters", [f"{n} {m}" for n, m in problem.messages.items()])
        if self.instance.pk and {*MEASURED} & {*self.changed_data}:
            lock_workloads([self.instance.pk])  # of a launch in between
            if why_not := why_not_edit(Workload.objects.get(pk=self.instance.pk)):
                self.add_error(None, why_not)
        return cleaned


@admin.register(Workload)
class WorkloadAdmin(Owned):
    """The administration's pages of workloads."""

    form = WorkloadForm
    list_display = ("name", "kind", "time_limit_seconds", "owner")

    def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if change and obj.kind in WORKLOADS and {*MEASURED} & {*form.changed_data}:
            refresh_variants(obj)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Workload]:
        """Leave out the variants of sweeps, which are changed by their experiments alone."""
        return super().get_queryset(request).filter(parent=None)


class DataCopyInline(RuledInline):
    """Where a data set lies: jobs read what is there, and Tare alone writes what they found."""

    model = DataCopy
    fields = ("cluster", "path", "state", "message", "checked_at", "read_at")
    readonly_fields = fields
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[DataCopy]:
        seen = Cluster.objects.visible_to(request.user)
        return super().get_queryset(request).filter(cluster__in=seen)


class DataSetForm(VisibilityFields, forms.ModelForm):  # type: ignore[type-arg]
    """A data set, and who may read it."""


@admin.register(DataSet)
class DataSetAdmin(Owned):
    """The administration's pages of data sets; what their files are is read, not typed."""

    form = DataSetForm
    inlines = (DataCopyInline,)
    readonly_fields: ClassVar[Any] = (
        *(*Owned.readonly_fields, "digest", "is_file", "files", "size_bytes"),
    )
    list_display = ("name", "short_digest", "licence", "files", "size_bytes", "owner")
    search_fields = ("name", "digest")
