"""The list of images: what the address asks for."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from django import forms
from django.db.models import Q, QuerySet

from dashboard.lists import Filter
from dashboard.typed_requests import OpenRequest
from experiments.images.search import search
from experiments.models import Cluster, Image, StagedImage
from experiments.natural_order import sort_naturally

NOWHERE = "nowhere"


class ImageFilter(Filter):
    """The filter of images; its choices are the values that `rows`, the visible images, have."""

    q = forms.CharField(label="Name, digest, label or package", max_length=300)
    kind = forms.ChoiceField(choices=[("", "any"), *Image.Kind.choices])
    system = forms.ChoiceField(label="Operating system")
    python = forms.ChoiceField(label="Python")
    framework = forms.ChoiceField()
    cuda = forms.ChoiceField(label="CUDA")
    staged = forms.ChoiceField()
    mine = forms.ChoiceField(label="Owner", choices=[("", "anybody"), ("me", "me")])

    COLUMNS: ClassVar = {
        "kind": "kind",
        "system": "operating_system",
        "python": "python_version",
        "framework": "framework",
        "cuda": "cuda_version",
    }

    def __init__(
        self, request: OpenRequest, rows: QuerySet[Image], clusters: QuerySet[Cluster]
    ) -> None:
        self.rows, self.clusters = rows, clusters
        super().__init__(request)

    def set_choices(self) -> None:
        named = [name for name in self.COLUMNS if name != "kind"]
        columns = [self.COLUMNS[name] for name in named]
        known = list(self.rows.order_by().values_list(*columns).distinct())
        for index, name in enumerate(named):
            values = {row[index] for row in known}
            if name == "framework":  # an image may have several
                values = {framework for text in values for framework in text.split(", ")}
            ordered = sort_naturally(values - {""})
            self._set_choices(name, [(value, value) for value in ordered])
        places = self.clusters.filter(staged_images__in=_present()).distinct()
        on = [(str(cluster.pk), f"on {cluster}") for cluster in places]
        self._set_choices("staged", [*on, (NOWHERE, "nowhere yet")])

    def _set_choices(self, name: str, choices: list[tuple[str, str]]) -> None:
        field: Any = self.fields[name]
        field.choices = [("", "any"), *choices]

    def apply(self) -> QuerySet[Image]:
        rows = search(self.rows, self.search_text)
        for name, column in self.COLUMNS.items():
            if self.value_of(name):
                rows = rows.filter(_is(column, self.value_of(name)))
        if place := self.value_of("staged"):
            staged = _present()
            if place == NOWHERE:
                rows = rows.exclude(pk__in=staged.values("image"))
            else:
                rows = rows.filter(pk__in=staged.filter(cluster=place).values("image"))
        return rows.filter(owner=self.user.pk) if self.value_of("mine") else rows

    @property
    def search_text(self) -> str:
        return self.value_of("q") or ""


def _is(column: str, value: str) -> Q:
    if column != "framework":
        return Q(**{column: value})
    return Q(framework__regex=rf"(^|, ){re.escape(value)}(,|$)")


def _present() -> QuerySet[StagedImage]:
    return StagedImage.objects.exclude(state=StagedImage.State.REMOVED)
