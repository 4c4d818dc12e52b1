"""What experiments are made of, by the API: clusters, environments, workloads, images, data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any

from django.db.models import Model, Prefetch, QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from ninja import Query, Router, Schema
from pydantic import create_model

from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.list_parts import MOST, USUAL, send_list, send_row
from dashboard.api.problems import ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.tokens import READ
from dashboard.execution.run_columns import list_columns
from experiments.models import Cluster, DataSet, Environment, Image, Partition, Workload

router = Router(tags=["Catalogue"])
Select = Callable[[Any], QuerySet[Any]]
Limit = Annotated[int, Query(ge=1, le=MOST)]


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


class ClusterSchema(Schema):
    """A cluster, without its address."""

    id: int
    name: str
    scheduler: str
    enabled: bool
    last_seen_at: datetime | None
    last_error: str
    partitions: list[PartitionSchema]
    page: str


class EnvironmentSchema(Schema):
    """Where a program finds its software: bare metal, or a runtime with an image."""

    id: int
    name: str
    cluster: int
    runtime: str
    mode: str
    image: str
    image_digest: str
    python: str


class WorkloadSchema(Schema):
    """A program with its parameters."""

    id: int
    name: str
    kind: str
    parameters: dict[str, Any]
    time_limit_seconds: int


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
    created_at: datetime
    page: str


class DataSetSchema(Schema):
    """A data set, known by its digest."""

    id: int
    name: str
    digest: str
    files: int | None
    size_bytes: int | None
    licence: str


def _select(model: Any) -> Select:
    return lambda user: model.objects.visible_to(user)


def _select_clusters(user: Any) -> QuerySet[Any]:
    partitions = Prefetch("partitions", Partition.objects.order_by("name"))
    return Cluster.objects.visible_to(user).prefetch_related(partitions)


def _select_environments(user: Any) -> QuerySet[Any]:
    rows = Environment.objects.visible_to(user)
    return rows.select_related("runtime", "staged_image__image")


def _describe_cluster(row: Cluster) -> ClusterSchema:
    return ClusterSchema(
        id=row.pk,
        name=row.name,
        scheduler=row.scheduler,
        enabled=row.enabled,
        last_seen_at=row.last_seen_at,
        last_error=row.last_error,
        partitions=[_describe_partition(part) for part in row.partitions.all()],
        page=reverse("cluster", args=[row.pk]),
    )


def _select_partitions(user: Any) -> QuerySet[Any]:
    return Partition.objects.filter(cluster__in=Cluster.objects.visible_to(user))


def _describe_partition(row: Partition) -> PartitionSchema:
    names = PartitionSchema.model_fields.keys() - {"id", "cluster"}
    columns = {name: getattr(row, name) for name in names}
    return PartitionSchema(id=row.pk, cluster=row.cluster_id, **columns)


def _describe_environment(row: Environment) -> EnvironmentSchema:
    image = row.staged_image.image if row.staged_image else None
    return EnvironmentSchema(
        id=row.pk,
        name=row.name,
        cluster=row.cluster_id,
        runtime=row.kind,
        mode=row.mode,
        image=image.reference if image else "",
        image_digest=image.digest if image else "",
        python=row.python,
    )


def _describe_workload(row: Workload) -> WorkloadSchema:
    return WorkloadSchema(
        id=row.pk,
        name=row.name,
        kind=row.kind,
        parameters=row.parameters,
        time_limit_seconds=row.time_limit_seconds,
    )


def _describe_image(row: Image) -> ImageSchema:
    names = ImageSchema.model_fields.keys() - {"id", "page"}
    columns = {name: getattr(row, name) for name in names}
    return ImageSchema(id=row.pk, page=row.get_absolute_url(), **columns)


def _describe_data_set(row: DataSet) -> DataSetSchema:
    names = DataSetSchema.model_fields.keys() - {"id"}
    return DataSetSchema(id=row.pk, **{name: getattr(row, name) for name in names})


KINDS: dict[str, tuple[type[Schema], Select, Callable[[Any], Schema]]] = {
    "clusters": (ClusterSchema, _select_clusters, _describe_cluster),
    "partitions": (PartitionSchema, _select_partitions, _describe_partition),
    "environments": (EnvironmentSchema, _select_environments, _describe_environment),
    "workloads": (
        WorkloadSchema,
        _select(Workload),
        _describe_workload,
    ),
    "images": (ImageSchema, _select(Image), _describe_image),
    "data-sets": (DataSetSchema, _select(DataSet), _describe_data_set),
}
"""The word in the address -> what is said of a row, which rows one may view, and how it is said."""


def _add_routes(
    word: str, schema: type[Schema], select: Select, describe: Callable[[Any], Schema]
) -> None:
    noun = word.replace("-", " ")

    def describe_all(rows: Sequence[Model]) -> Iterable[Schema]:
        return (describe(row) for row in rows)

    def list_rows(
        request: ApiRequest, limit: Limit = USUAL, cursor: str = "", fields: str = ""
    ) -> HttpResponse:
        rows = select(request.user)
        return send_list(
            request, rows, schema, describe_all, limit=limit, cursor=cursor, fields=fields
        )

    def read_row(request: ApiRequest, pk: Key) -> HttpResponse:
        row = get_object_or_404(select(request.user), pk=pk)
        return send_row(request, describe(row).model_dump(mode="json"))

    name = word.replace("-", "_")
    list_rows.__doc__ = f"List the {noun} that one may view, the newest first."
    read_row.__doc__ = f"Return one {noun.removesuffix('s')}."
    columns: Any = {"items": (list[schema], ...), "next": (str | None, ...)}  # type: ignore[valid-type]
    page = create_model(f"{schema.__name__}List", __base__=Schema, **columns)
    router.get(
        word,
        auth=READ,
        operation_id=f"list_{name}",
        response={200: page, 401: ProblemSchema, 422: ProblemSchema},
    )(list_rows)
    router.get(
        f"{word}/{{pk}}",
        auth=READ,
        operation_id=f"read_{name.removesuffix('s')}",
        response={200: schema, **REFUSED},
    )(read_row)


for _word, _kind in KINDS.items():
    _add_routes(_word, *_kind)


class MetricSchema(Schema):
    """A metric that workloads of experiments report."""

    name: str
    label: str
    unit: str
    other_units: list[str]


class MetricList(Schema):
    """All metrics."""

    items: list[MetricSchema]


@router.get("metrics", auth=READ, response={200: MetricList, 401: ProblemSchema})
def list_metrics(request: ApiRequest) -> MetricList:
    """List the metrics of the workloads of all experiments that one may view."""
    groups = dict(list_columns(request.user).groups)
    items = [
        MetricSchema(
            name=column.name,
            label=column.help or column.label,
            unit=column.unit,
            other_units=list(column.other_units),
        )
        for column in groups.get("Metrics", [])
    ]
    return MetricList(items=items)
