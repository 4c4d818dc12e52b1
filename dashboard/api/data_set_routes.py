"""Data sets and their copies by the API, with the forms of their pages."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Field

from dashboard.access.rights import changeable_row, visible_row
from dashboard.api.catalogue_routes import send_described
from dashboard.api.catalogue_schemas import DataSetSchema
from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.filled_forms import do_valid, fill_in
from dashboard.api.form_bodies import RowKey, StrictBody, require_valid
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.operation_schemas import DataCopySchema, OperationSchema
from dashboard.api.problems import ProblemSchema, refusals_as_conflicts, refuse, refuse_now
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import CATALOGUE
from dashboard.api.visibility_changes import VisibilityChange, change_row
from dashboard.catalogue import row_changes
from dashboard.data_sets.data_set_forms import CopyForm, DataSetForm, NewDataSetForm
from experiments.access import audit
from experiments.access.permissions import why_not_add, why_not_change
from experiments.data_sets import copies
from experiments.models import DataCopy, DataSet

router = Router(tags=["Catalogue"])
NOT_NOW: dict[int, Any] = {409: ProblemSchema, 422: ProblemSchema, **REFUSED}
REQUESTED: dict[int, Any] = {202: OperationSchema, **NOT_NOW}


class DataSetChange(VisibilityChange):
    """What is said of a data set; what is not sent stays."""

    name: str | None = None
    description: str | None = None
    licence: str | None = None
    source: str | None = None


class NewCopy(StrictBody):
    """Where a copy of a data set lies."""

    cluster: RowKey
    path: str = Field(description="Absolute, a folder or a file that compute nodes can read.")


class NewDataSet(DataSetChange):
    """A data set, and where its first copy lies."""

    name: str
    cluster: RowKey
    path: str = Field(description="Absolute, a folder or a file that compute nodes can read.")


@router.post(
    "data-sets",
    auth=CATALOGUE,
    throttle=HEAVY,
    response={201: DataSetSchema, 403: ProblemSchema, 409: ProblemSchema, 422: ProblemSchema},
)
@idempotent
def make_data_set(request: ApiRequest, new: NewDataSet) -> HttpResponse:
    """Register a data set by a folder or file on a cluster, and have it read."""
    refuse(why_not_add(request.user, DataSet))
    user = request.user
    form = fill_in(
        lambda *bound: NewDataSetForm(*bound, instance=DataSet(owner=user), user=user),
        new.model_dump(mode="json", exclude_unset=True),
    )
    row = do_valid(form, NewDataSetForm.save_if_valid)
    return send_described(request, "data-sets", row.pk, status=HTTPStatus.CREATED)


@router.patch("data-sets/{pk}", auth=CATALOGUE, response={200: DataSetSchema, **NOT_NOW})
def change_data_set(request: ApiRequest, pk: Key, change: DataSetChange) -> HttpResponse:
    """Change what is said of a data set; what its files are is read."""
    row = changeable_row(request, DataSet, pk, "owner")

    def change_others(values: dict[str, Any]) -> None:
        form = fill_in(lambda *bound: DataSetForm(*bound, instance=row, user=request.user), values)
        require_valid(form)
        row_changes.store(form, request.user)

    change_row(request, row, change, change_others)
    return send_described(request, "data-sets", pk)


@router.delete(
    "data-sets/{pk}", auth=CATALOGUE, response={204: None, 409: ProblemSchema, **REFUSED}
)
def delete_data_set(request: ApiRequest, pk: Key) -> HttpResponse:
    """Delete a data set that no workload reads; its files stay."""
    row = changeable_row(request, DataSet, pk, "owner")
    refuse_now(copies.why_not_delete(row))
    audit.delete(request.user, row)
    return HttpResponse(status=HTTPStatus.NO_CONTENT)


@router.post(
    "data-sets/{pk}/copies",
    auth=CATALOGUE,
    throttle=HEAVY,
    response={201: DataCopySchema, **NOT_NOW},
)
@idempotent
def add_data_copy(request: ApiRequest, pk: Key, new: NewCopy) -> HttpResponse:
    """Have a copy of a data set on another cluster read."""
    data_set = visible_row(request, DataSet, pk, "owner")
    refuse(why_not_add(request.user, DataCopy))
    form = fill_in(
        lambda *bound: CopyForm(*bound, user=request.user, data_set=data_set),
        new.model_dump(mode="json"),
    )
    row = do_valid(form, CopyForm.request_copy_if_valid)
    return send_described(request, "data-copies", row.pk, status=HTTPStatus.CREATED)


@router.post("data-copies/{pk}/check", auth=CATALOGUE, throttle=HEAVY, response=REQUESTED)
@idempotent
def check_data_copy(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have sizes and times of a copy's files compared with those of the last reading."""
    return _request(request, pk, in_full=False)


@router.post("data-copies/{pk}/read", auth=CATALOGUE, throttle=HEAVY, response=REQUESTED)
@idempotent
def read_data_copy_again(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have all files of a copy read again."""
    return _request(request, pk, in_full=True)


def _request(request: ApiRequest, pk: int, *, in_full: bool) -> HttpResponse:
    row = _find_copy(request, pk)
    with refusals_as_conflicts(copies.NotDone):
        operation = copies.check(row, request.user, in_full=in_full)
    return send_described(request, "operations", operation.pk, status=HTTPStatus.ACCEPTED)


@router.delete(
    "data-copies/{pk}", auth=CATALOGUE, response={204: None, 409: ProblemSchema, **REFUSED}
)
def forget_data_copy(request: ApiRequest, pk: Key) -> HttpResponse:
    """Take a copy out of the catalogue; its files stay."""
    row = _find_copy(request, pk)
    refuse(why_not_change(request.user, row))
    with refusals_as_conflicts(copies.NotDone):
        copies.forget(row, request.user)
    return HttpResponse(status=HTTPStatus.NO_CONTENT)


def _find_copy(request: ApiRequest, pk: int) -> DataCopy:
    """Return a copy of a data set that one may view. Raises Http404 or Problem 403."""
    seen = DataSet.objects.visible_to(request.user)
    rows = DataCopy.objects.filter(data_set__in=seen.values("pk"))
    row = get_object_or_404(rows.select_related("data_set__owner", "cluster"), pk=pk)
    refuse(why_not_add(request.user, DataCopy))
    return row
