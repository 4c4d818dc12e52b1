"""What the API says of the rows of the catalogue, and which of them it shows to whom."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db.models import Prefetch, QuerySet
from django.urls import reverse
from ninja import Field, Schema

from experiments.models import (
    Cluster,
    DataSet,
    Environment,
    Image,
    Partition,
    Runtime,
    User,
    Workload,
)

Select = Callable[[Any], QuerySet[Any]]


class PartitionSchema(Schema):
    """A partition of a cluster."""

    id: int
    cluster: int
    name: str
    nodes: int
    gpus_per_node: int
    gpu_model: str
    cpus_per_node: int
    time_limit_minutes: int
    enabled: bool


class RuntimeSchema(Schema):
    """What starts containers on a cluster."""

    id: int
    kind: str
    executable: str
    version: str


class ClusterSchema(Schema):
    """A cluster, without its address."""

    id: int
    name: str
    scheduler: str
    enabled: bool
    last_seen_at: datetime | None
    last_error: str
    max_live_jobs: int
    poll_seconds: float
    visibility: str
    partitions: list[PartitionSchema]
    runtimes: list[RuntimeSchema]
    page: str


class EnvironmentSchema(Schema):
    """Where a program finds its software: bare metal, or a runtime with an image."""

    id: int
    name: str
    cluster: int
    runtime: str
    runtime_id: int | None = Field(description="One of the cluster's `runtimes`.")
    staged_image: int | None = Field(description="One of `staged-images`.")
    mode: str
    image: str
    image_digest: str
    python: str
    binds: list[str]
    variables: dict[str, str]
    setup_lines: str
    owner: str | None
    visibility: str
    page: str


class WorkloadSchema(Schema):
    """A program with its parameters."""

    id: int
    name: str
    kind: str
    parameters: dict[str, Any]
    data_set: int | None
    data_proof: str
    time_limit_seconds: int
    owner: str | None
    visibility: str
    page: str


class ImageSchema(Schema):
    """An image of the catalogue, known by its digest."""

    id: int
    reference: str
    digest: str
    kind: str
    architecture: str
    operating_system: str
    framework: str
    size_bytes: int | None
    labels: dict[str, Any]
    owner: str | None
    visibility: str
    created_at: datetime
    page: str


class DataSetSchema(Schema):
    """A data set, known by its digest."""

    id: int
    name: str
    description: str
    digest: str
    files: int | None
    size_bytes: int | None
    licence: str
    source: str
    owner: str | None
    visibility: str
    page: str


def _name_owner(row: Any) -> str | None:
    owner: User | None = row.owner
    return str(owner) if owner else None


def _take(row: Any, schema: type[Schema], *others: str) -> dict[str, Any]:
    """Return the fields of a schema that are columns of the row; `others` are not."""
    return {name: getattr(row, name) for name in schema.model_fields.keys() - {"id", *others}}


def select_clusters(user: Any) -> QuerySet[Any]:
    """Return the clusters that `user` may view, with their parts."""
    partitions = Prefetch("partitions", Partition.objects.order_by("name"))
    runtimes = Prefetch("runtimes", Runtime.objects.order_by("kind", "pk"))
    return Cluster.objects.visible_to(user).prefetch_related(partitions, runtimes)


def describe_cluster(row: Cluster) -> ClusterSchema:
    """Return what the API says of a cluster."""
    return ClusterSchema(
        id=row.pk,
        **_take(row, ClusterSchema, "partitions", "runtimes", "page"),
        partitions=[describe_partition(part) for part in row.partitions.all()],
        runtimes=[
            RuntimeSchema(id=part.pk, **_take(part, RuntimeSchema)) for part in row.runtimes.all()
        ],
        page=reverse("cluster", args=[row.pk]),
    )


def select_partitions(user: Any) -> QuerySet[Any]:
    """Return the partitions of the clusters that `user` may view."""
    return Partition.objects.filter(cluster__in=Cluster.objects.visible_to(user))


def describe_partition(row: Partition) -> PartitionSchema:
    """Return what the API says of a partition."""
    columns = _take(row, PartitionSchema, "cluster")
    return PartitionSchema(id=row.pk, cluster=row.cluster_id, **columns)


def select_environments(user: Any) -> QuerySet[Any]:
    """Return the environments that `user` may view."""
    rows = Environment.objects.visible_to(user)
    return rows.select_related("runtime", "staged_image__image", "owner")


def describe_environment(row: Environment) -> EnvironmentSchema:
    """Return what the API says of an environment."""
    image = row.staged_image.image if row.staged_image else None
    return EnvironmentSchema(
        id=row.pk,
        name=row.name,
        cluster=row.cluster_id,
        runtime=row.kind,
        runtime_id=row.runtime_id,
        staged_image=row.staged_image_id,
        mode=row.mode,
        image=image.reference if image else "",
        image_digest=image.digest if image else "",
        python=row.python,
        binds=list(row.binds),
        variables=dict(row.variables),
        setup_lines=row.setup_lines,
        owner=_name_owner(row),
        visibility=row.visibility,
        page=reverse("environment", args=[row.pk]),
    )


def select_workloads(user: Any) -> QuerySet[Any]:
    """Return the workloads that `user` may view."""
    return Workload.objects.visible_to(user).select_related("owner")


def describe_workload(row: Workload) -> WorkloadSchema:
    """Return what the API says of a workload."""
    return WorkloadSchema(
        id=row.pk,
        **_take(row, WorkloadSchema, "data_set", "owner", "page"),
        data_set=row.data_set_id,
        owner=_name_owner(row),
        page=reverse("workload", args=[row.pk]),
    )


def select_images(user: Any) -> QuerySet[Any]:
    """Return the images that `user` may view, without their packages."""
    return Image.objects.visible_to(user).select_related("owner").defer("packages")


def describe_image(row: Image) -> ImageSchema:
    """Return what the API says of an image."""
    return ImageSchema(
        id=row.pk,
        **_take(row, ImageSchema, "owner", "page"),
        owner=_name_owner(row),
        page=row.get_absolute_url(),
    )


def select_data_sets(user: Any) -> QuerySet[Any]:
    """Return the data sets that `user` may view."""
    return DataSet.objects.visible_to(user).select_related("owner")


def describe_data_set(row: DataSet) -> DataSetSchema:
    """Return what the API says of a data set."""
    return DataSetSchema(
        id=row.pk,
        **_take(row, DataSetSchema, "owner", "page"),
        owner=_name_owner(row),
        page=row.get_absolute_url(),
    )
