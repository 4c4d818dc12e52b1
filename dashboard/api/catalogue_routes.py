"""What experiments are made of, by the API: clusters, environments, workloads, images, data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from django.db.models import Model
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from ninja import Query, Schema
from pydantic import create_model

from dashboard.api import catalogue_schemas as catalogue
from dashboard.api import operation_schemas as operations
from dashboard.api.catalogue_schemas import Select
from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.list_parts import MOST, USUAL, send_list, send_row
from dashboard.api.problems import ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import READ
from dashboard.execution.run_columns import list_columns

router = Router(tags=["Catalogue"])
Limit = Annotated[int, Query(ge=1, le=MOST)]

KINDS: dict[str, tuple[type[Schema], Select, Callable[[Any], Schema]]] = {
    "clusters": (
        catalogue.ClusterSchema,
        catalogue.select_clusters,
        catalogue.describe_cluster,
    ),
    "partitions": (
        catalogue.PartitionSchema,
        catalogue.select_partitions,
        catalogue.describe_partition,
    ),
    "environments": (
        catalogue.EnvironmentSchema,
        catalogue.select_environments,
        catalogue.describe_environment,
    ),
    "workloads": (
        catalogue.WorkloadSchema,
        catalogue.select_workloads,
        catalogue.describe_workload,
    ),
    "images": (catalogue.ImageSchema, catalogue.select_images, catalogue.describe_image),
    "staged-images": (
        operations.StagedImageSchema,
        operations.select_staged_images,
        operations.describe_staged_image,
    ),
    "image-imports": (
        operations.ImageImportSchema,
        operations.select_image_imports,
        operations.describe_image_import,
    ),
    "data-sets": (
        catalogue.DataSetSchema,
        catalogue.select_data_sets,
        catalogue.describe_data_set,
    ),
    "data-copies": (
        operations.DataCopySchema,
        operations.select_data_copies,
        operations.describe_data_copy,
    ),
    "code-copies": (
        operations.CodeCopySchema,
        operations.select_code_copies,
        operations.describe_code_copy,
    ),
    "operations": (
        operations.OperationSchema,
        operations.select_operations,
        operations.describe_operation,
    ),
}
"""The word in the address -> what is said of a row, which rows one may view, and how it is said."""


def name_one(word: str) -> str:
    """Return the word for a single row, as operations of the document have it."""
    name = word.replace("-", "_")
    return f"{name.removesuffix('ies')}y" if name.endswith("ies") else name.removesuffix("s")


def send_described(
    request: ApiRequest, word: str, pk: int, *, status: HTTPStatus = HTTPStatus.OK
) -> HttpResponse:
    """Return a row as it is now; where it was made, with its address. Raises Http404."""
    _, select, describe = KINDS[word]
    row = get_object_or_404(select(request.user), pk=pk)
    answer = send_row(request, describe(row).model_dump(mode="json"))
    if status != HTTPStatus.OK:
        answer.status_code = status
        answer["Location"] = reverse(f"api:read_{name_one(word)}", args=[pk])
    return answer


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
        return send_described(request, word, pk)

    name, one = word.replace("-", "_"), name_one(word)
    list_rows.__doc__ = f"List the {noun} that one may view, the newest first."
    read_row.__doc__ = f"Return one {one.replace('_', ' ')}."
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
        operation_id=f"read_{one}",
        url_name=f"read_{one}",
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
