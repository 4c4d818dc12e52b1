"""Images by the API: imported, built, labelled and deleted, with the forms of their pages."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables
from ninja import Field
from pydantic import SecretStr

from dashboard.access.rights import changeable_row
from dashboard.api.catalogue_routes import send_described
from dashboard.api.catalogue_schemas import ImageSchema
from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.filled_forms import do_valid, fill_in
from dashboard.api.form_bodies import INVALID, RowKey, StrictBody, require_valid
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.operation_schemas import ImageImportSchema
from dashboard.api.problems import (
    FieldProblem,
    Problem,
    ProblemSchema,
    refusals_as_conflicts,
    refuse,
    refuse_now,
)
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import CATALOGUE
from dashboard.api.visibility_changes import VisibilityChange, change_row
from dashboard.images.image_forms import (
    FileForm,
    ImageImportForm,
    LabelsForm,
    ReferenceForm,
    fits_line,
)
from experiments.access.permissions import why_not_add
from experiments.images import deleting, image_imports
from experiments.images.staging import NotDone
from experiments.models import Image, ImageImport

router = Router(tags=["Catalogue"])
REQUESTED: dict[int, Any] = {
    202: ImageImportSchema,
    403: ProblemSchema,
    409: ProblemSchema,
    422: ProblemSchema,
}
CHANGED: dict[int, Any] = {200: ImageSchema, 409: ProblemSchema, 422: ProblemSchema, **REFUSED}
ONE_SOURCE = "An image comes from a registry (“reference”) or from a “path” on a “cluster”."
ONE_LINE = "A label is a name without = and a text, each one line without blanks around it."
NO_LABEL = object()
NOT_OVER = "It is under way still: cancel it first."


class NewImage(StrictBody):
    """Where an image comes from: a registry, or a file on a cluster."""

    reference: str | None = Field(None, examples=["docker://docker.io/library/python:3.12-slim"])
    user_name: str = Field("", description="At the registry, where it asks for one.")
    password: SecretStr = Field(
        SecretStr(""), description="Encrypted, and forgotten once the image is here."
    )
    cluster: RowKey | None = None
    path: str | None = Field(None, description="Absolute, of a file on the cluster.")
    title: str = ""
    architecture: str = ""


class ImageChange(VisibilityChange):
    """What is to be another of an image; what is not sent stays."""

    labels: dict[str, Any] | None = Field(None, description="All of them, name and value.")


@router.post("images", auth=CATALOGUE, throttle=HEAVY, response=REQUESTED)
@idempotent
def import_image(request: ApiRequest, new: NewImage) -> HttpResponse:
    """Request an image from a registry or from a file on a cluster."""
    refuse(why_not_add(request.user, Image))
    if (new.reference is None) == (new.path is None):
        problems = [FieldProblem("reference", ONE_SOURCE)]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)
    row = do_valid(
        _fill_in(request, new),
        ImageImportForm.request_import_if_valid,
        refused=HTTPStatus.UNPROCESSABLE_ENTITY,
    )
    return send_described(request, "image-imports", row.pk, status=HTTPStatus.ACCEPTED)


@sensitive_variables()
def _fill_in(request: ApiRequest, new: NewImage) -> ImageImportForm:
    kind: type[ImageImportForm] = ReferenceForm
    password = new.password.get_secret_value()
    values: dict[str, Any] = {"reference": new.reference, "user_name": new.user_name}
    values["password"] = password
    if new.reference is None:
        kind, values = FileForm, {"cluster": new.cluster, "path": new.path}
    values |= {"title": new.title, "architecture": new.architecture}
    return fill_in(lambda *bound: kind(*bound, user=request.user), values)


@router.patch("images/{pk}", auth=CATALOGUE, response=CHANGED)
def change_image(request: ApiRequest, pk: Key, change: ImageChange) -> HttpResponse:
    """Change the labels and the visibility of an image; what it is its digest says."""
    row = changeable_row(request, Image, pk, "owner")

    def change_labels(values: dict[str, Any]) -> None:
        labels = values["labels"] or {}
        kept = LabelsForm(instance=row).kept  # which no line can hold
        new = {name: value for name, value in labels.items() if kept.get(name, NO_LABEL) != value}
        problems = [
            FieldProblem(f"labels.{name[:50]}", ONE_LINE)
            for name, value in new.items()
            if not name or name in kept or not fits_line(name, value)
        ]
        if problems:
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)
        lines = [f"{name}={value}" if value else name for name, value in new.items()]
        form = fill_in(lambda *bound: LabelsForm(*bound, instance=row), {"lines": "\n".join(lines)})
        require_valid(form)
        form.keep(request.user)

    change_row(request, row, change, change_labels)
    return send_described(request, "images", pk)


@router.delete("images/{pk}", auth=CATALOGUE, response={204: None, 409: ProblemSchema, **REFUSED})
def delete_image(request: ApiRequest, pk: Key) -> HttpResponse:
    """Delete an image of which nothing depends."""
    row = changeable_row(request, Image, pk, "owner")
    refuse_now(deleting.why_not_delete(row))
    deleting.delete(row, request.user)
    return HttpResponse(status=HTTPStatus.NO_CONTENT)


@router.post(
    "image-imports/{pk}/cancel",
    auth=CATALOGUE,
    response={200: ImageImportSchema, 409: ProblemSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
def cancel_image_import(request: ApiRequest, pk: Key) -> HttpResponse:
    """Cancel an image import that is under way."""
    row = get_object_or_404(ImageImport.objects.listed_for(request.user), pk=pk)
    with refusals_as_conflicts(NotDone):
        image_imports.cancel(row, request.user)
    return send_described(request, "image-imports", pk)


@router.delete(
    "image-imports/{pk}", auth=CATALOGUE, response={204: None, 409: ProblemSchema, **REFUSED}
)
def dismiss_image_import(request: ApiRequest, pk: Key) -> HttpResponse:
    """Take an image import that is over off the list."""
    row = get_object_or_404(ImageImport.objects.listed_for(request.user), pk=pk)
    if not row.is_over:
        raise Problem(HTTPStatus.CONFLICT, NOT_OVER)
    ImageImport.objects.filter(pk=pk).update(dismissed_at=timezone.now())
    return HttpResponse(status=HTTPStatus.NO_CONTENT)
