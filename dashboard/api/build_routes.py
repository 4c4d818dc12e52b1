"""Images that a cluster builds, by the API, and the environments outside that go with an image."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Literal

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Field

from dashboard.access.rights import visible_row
from dashboard.api.catalogue_routes import send_described
from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.file_contents import FileContent, FileName, make_uploads
from dashboard.api.filled_forms import do_valid, fill_in
from dashboard.api.form_bodies import RowKey, StrictBody
from dashboard.api.idempotency import idempotent
from dashboard.api.image_routes import REQUESTED
from dashboard.api.limits import HEAVY
from dashboard.api.operation_schemas import OperationSchema
from dashboard.api.problems import ProblemSchema, refusals_as_conflicts, refuse
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import CATALOGUE
from dashboard.software.build_file_forms import BuildFileForm
from dashboard.software.recipe_forms import RecipeForm
from experiments.access.permissions import why_not_add
from experiments.images.staging import NotDone
from experiments.models import Cluster, Environment, Image, Operation
from experiments.software import building, own_trees
from experiments.software.build_files import DEFAULT_MINUTES, LONGEST_FILE, MOST_MINUTES

router = Router(tags=["Catalogue"])
OPERATION: dict[int, Any] = {
    202: OperationSchema,
    409: ProblemSchema,
    422: ProblemSchema,
    **REFUSED,
}


class NewRecipe(StrictBody):
    """A base image, and the packages that are laid over it."""

    title: str
    base: RowKey = Field(description="An image of the catalogue.")
    packages: str = Field(
        "", description="Debian packages, one a line: NAME or NAME=VERSION. Podman installs them."
    )
    lock: str = Field("", description="The text of a lock file of Python packages with hashes.")
    conda_file: str = Field(
        "", description="In place of a lock: the text of an environment file of conda."
    )
    cluster: RowKey = Field(description="The one that builds it.")
    partition: RowKey | None = None


class NewFileBuild(StrictBody):
    """A Dockerfile or a definition file, and the files that it copies."""

    title: str
    kind: Literal["dockerfile", "definition"]
    text: str = Field(
        max_length=LONGEST_FILE,
        description="Its base is named by the digest of an image of the catalogue.",
    )
    files: dict[FileName, FileContent] = Field({}, description="For COPY and %files.")
    cluster: RowKey = Field(description="The one that builds it.")
    partition: RowKey | None = None
    minutes: int = Field(DEFAULT_MINUTES, ge=1, le=MOST_MINUTES, description="It ends after them.")


class ClusterChoice(StrictBody):
    """The cluster on which an environment is made."""

    cluster: RowKey


@router.post("images/recipes", auth=CATALOGUE, throttle=HEAVY, response=REQUESTED)
@idempotent
def build_image(request: ApiRequest, new: NewRecipe) -> HttpResponse:
    """Have a cluster build an image of a base, Debian packages and those of a lock or of conda."""
    refuse(why_not_add(request.user, Image))
    form = fill_in(
        lambda *bound: RecipeForm(*bound, user=request.user), new.model_dump(mode="json")
    )
    row = do_valid(form, RecipeForm.request_build_if_valid)
    return send_described(request, "image-imports", row.pk, status=HTTPStatus.ACCEPTED)


@router.post("images/builds", auth=CATALOGUE, throttle=HEAVY, response=REQUESTED)
@idempotent
def build_from_file(request: ApiRequest, new: NewFileBuild) -> HttpResponse:
    """Have a cluster build an image of a Dockerfile or of a definition file."""
    refuse(why_not_add(request.user, Image))
    form = fill_in(
        lambda *bound: BuildFileForm(*bound, user=request.user),
        new.model_dump(mode="json", exclude={"files"}),
        make_uploads(new.files),
    )
    row = do_valid(form, BuildFileForm.request_build_if_valid)
    return send_described(request, "image-imports", row.pk, status=HTTPStatus.ACCEPTED)


@router.post("images/{pk}/match", auth=CATALOGUE, throttle=HEAVY, response=OPERATION)
@idempotent
def match_image(request: ApiRequest, pk: Key, choice: ClusterChoice) -> HttpResponse:
    """Have a cluster make the bare-metal environment that matches an image's lock file."""
    image, cluster = _choose(request, pk, choice)
    with refusals_as_conflicts(NotDone):
        operation = building.request_match(image, cluster, request.user)
    return _send(request, operation)


@router.post("images/{pk}/tree", auth=CATALOGUE, throttle=HEAVY, response=OPERATION)
@idempotent
def make_own_tree(request: ApiRequest, pk: Key, choice: ClusterChoice) -> HttpResponse:
    """Have a cluster unpack an image, for an environment of its files outside of a container."""
    image, cluster = _choose(request, pk, choice)
    with refusals_as_conflicts(NotDone):
        operation = own_trees.request_tree(image, cluster, request.user)
    return _send(request, operation)


def _choose(request: ApiRequest, pk: int, choice: ClusterChoice) -> tuple[Image, Cluster]:
    """Return an image that one may view and a cluster that one may use. Raises Http404, Problem."""
    refuse(why_not_add(request.user, Environment))
    image = visible_row(request, Image, pk)
    clusters = Cluster.objects.usable_by(request.user)
    return image, get_object_or_404(clusters, pk=choice.cluster)


def _send(request: ApiRequest, operation: Operation) -> HttpResponse:
    return send_described(request, "operations", operation.pk, status=HTTPStatus.ACCEPTED)
