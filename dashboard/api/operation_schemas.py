"""What the API says of what is being done with images and data: imports, forms, copies, operations.

These are what programs wait for: a request is answered at once, and a worker does the work.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse
from ninja import Field, Schema

from experiments.code_copies.code_requests import list_visible_copies
from experiments.models import (
    Cluster,
    CodeCopy,
    DataCopy,
    DataSet,
    Image,
    ImageImport,
    Operation,
    StagedImage,
)

LARGE = (
    *("script", "result", "code_copy__paths"),
    *("image_import__lock", "image_import__conda_file", "image_import__build_file"),
)
NAMED = (
    *("cluster", "image", "staged_image__image", "staged_image__cluster", "environment"),
    *("image_import", "data_copy__data_set", "data_copy__cluster", "code_copy__cluster"),
)


class StagedImageSchema(Schema):
    """An image in the form that a cluster's runtime starts, or its archive there."""

    id: int
    image: int
    cluster: int
    format: str
    mode: str
    path: str
    state: str = Field(description="staging, ready, failed or removing.")
    message: str
    size_bytes: int | None
    verified_at: datetime | None


class ImageImportSchema(Schema):
    """An image on its way into the catalogue."""

    id: int
    kind: str
    reference: str
    title: str
    architecture: str
    cluster: int | None
    state: str = Field(description="waiting, under way, done or failed.")
    doing: str
    problem: str
    image: int | None = Field(description="The image, once it is in the catalogue.")
    operations: list[int]
    requested_at: datetime
    ended_at: datetime | None


class DataCopySchema(Schema):
    """A copy of a data set at a path of one cluster."""

    id: int
    data_set: int
    cluster: int
    path: str
    state: str = Field(description="staging, ready, missing, changed or failed.")
    message: str
    checked_at: datetime | None
    read_at: datetime | None


class CodeCopySchema(Schema):
    """Code of workloads on one cluster: an unpacked archive, or a commit."""

    id: int
    cluster: int
    archive: str | None = Field(description="The sha256 of the archive.")
    commit: str
    repository: str = Field(description="The address that the commit was fetched from.")
    path: str = Field(description="The folder of its files on the cluster.")
    digest: str
    files: int | None
    size_bytes: int | None
    left_out: dict[str, list[str]] = Field(description="Submodules and files of Git LFS.")
    state: str = Field(description="staging, ready, missing, changed, failed or removing.")
    message: str
    read_at: datetime | None


class OperationSchema(Schema):
    """Steps that a worker has a cluster do with an image, an environment or data."""

    id: int
    kind: str
    about: str
    cluster: int
    image: int | None
    staged_image: int | None
    environment: int | None
    image_import: int | None
    data_copy: int | None
    code_copy: int | None
    state: str
    reason: str
    message: str
    doing: str
    step: int
    steps: int
    output_tail: str
    is_over: bool
    requested_at: datetime
    ended_at: datetime | None
    page: str


def _take(row: Any, schema: type[Schema], *keys: str, others: tuple[str, ...] = ()) -> Any:
    """Return the fields of a schema: columns of the row, and its foreign `keys`, as numbers."""
    names = schema.model_fields.keys() - {"id", *keys, *others}
    columns = {name: getattr(row, name) for name in names}
    return columns | {"id": row.pk} | {name: getattr(row, f"{name}_id") for name in keys}


def select_staged_images(user: Any) -> QuerySet[Any]:
    """Return the forms of images that `user` may view on clusters that they may view."""
    return StagedImage.objects.filter(
        image__in=Image.objects.visible_to(user).values("pk"),
        cluster__in=Cluster.objects.visible_to(user).values("pk"),
    ).exclude(state=StagedImage.State.REMOVED)


def describe_staged_image(row: StagedImage) -> StagedImageSchema:
    """Return what the API says of a form of an image."""
    return StagedImageSchema(**_take(row, StagedImageSchema, "image", "cluster"))


def select_image_imports(user: Any) -> QuerySet[Any]:
    """Return the imports that a person's list shows."""
    rows = ImageImport.objects.listed_for(user).defer("lock", "conda_file")
    return rows.prefetch_related("operations")


def describe_image_import(row: ImageImport) -> ImageImportSchema:
    """Return what the API says of an import; never its password."""
    keys = [operation.pk for operation in row.operations.all()]
    columns = _take(row, ImageImportSchema, "cluster", "image", others=("operations",))
    return ImageImportSchema(**columns, operations=sorted(keys))


def select_data_copies(user: Any) -> QuerySet[Any]:
    """Return the copies of data sets that `user` may view on clusters that they may view."""
    return DataCopy.objects.filter(
        data_set__in=DataSet.objects.visible_to(user).values("pk"),
        cluster__in=Cluster.objects.visible_to(user).values("pk"),
    )


def describe_data_copy(row: DataCopy) -> DataCopySchema:
    """Return what the API says of a copy."""
    return DataCopySchema(**_take(row, DataCopySchema, "data_set", "cluster"))


def select_code_copies(user: Any) -> QuerySet[Any]:
    """Return the copies of code that `user` may view."""
    return list_visible_copies(user).select_related("cluster")


def describe_code_copy(row: CodeCopy) -> CodeCopySchema:
    """Return what the API says of a copy of code."""
    return CodeCopySchema(**_take(row, CodeCopySchema, "cluster", "archive"))


def select_operations(user: Any) -> QuerySet[Any]:
    """Return the operations that `user` may view, with what they name."""
    return Operation.objects.visible_to(user).select_related(*NAMED).defer(*LARGE)


def describe_operation(row: Operation) -> OperationSchema:
    """Return what the API says of an operation."""
    keys = (
        "cluster",
        "image",
        "staged_image",
        "environment",
        "image_import",
        "data_copy",
        "code_copy",
    )
    columns = _take(row, OperationSchema, *keys, others=("about", "is_over", "page"))
    return OperationSchema(
        **columns,
        about=str(row),
        is_over=row.is_final,
        page=reverse("operation", args=[row.pk]),
    )
