"""Forms of images on clusters by the API, and the operations that make them."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Field

from dashboard.access.rights import visible_row
from dashboard.api.catalogue_routes import send_described
from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.filled_forms import do_valid
from dashboard.api.form_bodies import RowKey, StrictBody
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.operation_schemas import (
    OperationSchema,
    StagedImageSchema,
    select_operations,
    select_staged_images,
)
from dashboard.api.problems import ProblemSchema, refusals_as_conflicts, refuse
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import CATALOGUE
from dashboard.images.image_forms import StageForm
from experiments.access.permissions import why_not_add, why_not_change
from experiments.images import staging
from experiments.models import Image, Operation, StagedImage

router = Router(tags=["Catalogue"])
NOT_NOW: dict[int, Any] = {409: ProblemSchema, 422: ProblemSchema, **REFUSED}
REQUESTED: dict[int, Any] = {202: OperationSchema, **NOT_NOW}


class StagingRequest(StrictBody):
    """A cluster, and the form in which its runtimes start an image."""

    cluster: RowKey
    format: str = Field(examples=["sif"])
    mode: str = Field("", description="Of a form that belongs to one mode, such as udocker's.")
    partition: RowKey | None = Field(None, description="Where the conversion runs.")


@router.post(
    "images/{pk}/stage",
    auth=CATALOGUE,
    throttle=HEAVY,
    response={202: StagedImageSchema, **NOT_NOW},
)
@idempotent
def stage_image(request: ApiRequest, pk: Key, staging_request: StagingRequest) -> HttpResponse:
    """Have a form of an image made on a cluster."""
    image = visible_row(request, Image, pk, "owner")
    refuse(why_not_add(request.user, StagedImage))
    asked = staging_request
    where = f"{asked.cluster} {asked.format} {asked.mode}"
    form = StageForm(
        {"where": where, "partition": asked.partition or ""}, image=image, user=request.user
    )
    form.fields["where"].error_messages["invalid_choice"] = explain_choices(form)
    row = do_valid(form, StageForm.request_staging_if_valid)
    return send_described(request, "staged-images", row.pk, status=HTTPStatus.ACCEPTED)


def explain_choices(form: StageForm) -> str:
    """Return the forms that can be made, with the numbers of the clusters, for programs."""
    groups: Any = form["where"].field.choices  # type: ignore[attr-defined]
    offered = [
        f"{label} (cluster {value.partition(' ')[0]})"
        for _, choices in groups
        for value, label in choices
    ]
    there_are = f"There are: {'; '.join(offered)}." if offered else "There is none now."
    return f"This form cannot be made there, or is there already. {there_are}".replace("%", "%%")


@router.post("staged-images/{pk}/verify", auth=CATALOGUE, throttle=HEAVY, response=REQUESTED)
@idempotent
def verify_staged_image(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have the files of a form compared with those of its image again."""
    row = _find_staged(request, pk)
    refuse(why_not_add(request.user, StagedImage))
    return _request(request, row, staging.verify)


@router.post("staged-images/{pk}/remove", auth=CATALOGUE, throttle=HEAVY, response=REQUESTED)
@idempotent
def remove_staged_image(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have a form removed from its cluster."""
    row = _find_staged(request, pk)
    refuse(why_not_change(request.user, row))
    return _request(request, row, staging.unstage)


def _find_staged(request: ApiRequest, pk: int) -> StagedImage:
    rows = select_staged_images(request.user).select_related("image", "cluster")
    row: StagedImage = get_object_or_404(rows, pk=pk)
    return row


def _request(
    request: ApiRequest, row: StagedImage, act: Callable[[StagedImage, Any], Operation]
) -> HttpResponse:
    with refusals_as_conflicts(staging.NotDone):
        operation = act(row, request.user)
    return send_described(request, "operations", operation.pk, status=HTTPStatus.ACCEPTED)


@router.post("operations/{pk}/cancel", auth=CATALOGUE, response={200: OperationSchema, **NOT_NOW})
@idempotent
def cancel_operation(request: ApiRequest, pk: Key) -> HttpResponse:
    """Ask for the end of an operation; the next visit to the cluster brings it about."""
    row = get_object_or_404(select_operations(request.user), pk=pk)
    refuse(staging.why_not_cancel(row, request.user))
    with refusals_as_conflicts(staging.NotDone):
        staging.cancel(row, request.user)
    return send_described(request, "operations", pk)
