"""A person's own saved views of the lists of runs and of experiments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Annotated, Literal

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Field, Query, Schema

from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.form_bodies import StrictBody
from dashboard.api.idempotency import idempotent
from dashboard.api.list_parts import MOST, USUAL, send_list, send_row
from dashboard.api.problems import FieldProblem, Problem, ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import EXPERIMENTS, READ
from dashboard.execution.saved_views import LONGEST_NAME, LONGEST_QUERY, ViewNotSaved, save_view
from experiments.models import SavedView

router = Router(tags=["Saved views"])


class SavedViewSchema(Schema):
    """A state of a list under a name."""

    id: int
    name: str
    query: str
    page: str


class SavedViewList(Schema):
    """A part of the list of saved views."""

    items: list[SavedViewSchema]
    next: str | None


class NewSavedView(StrictBody):
    """What is kept under which name; a view of the same name is replaced."""

    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    query: str = Field(
        max_length=LONGEST_QUERY,
        description="What stands behind the question mark of the list's address.",
        examples=["where=state=succeeded&sort=-metric.step_time"],
    )
    of: Literal["runs", "experiments"] = Field("runs", description="The list.")


def _describe(rows: Sequence[SavedView]) -> Iterable[SavedViewSchema]:
    for row in rows:
        page = row.get_absolute_url()
        yield SavedViewSchema(id=row.pk, name=row.name, query=row.query, page=page)


@router.get(
    "views", auth=READ, response={200: SavedViewList, 401: ProblemSchema, 422: ProblemSchema}
)
def list_saved_views(
    request: ApiRequest,
    limit: Annotated[int, Query(ge=1, le=MOST)] = USUAL,
    cursor: str = "",
    fields: str = "",
) -> HttpResponse:
    """List one's own saved views, the newest first."""
    rows = SavedView.objects.filter(owner=request.user)
    return send_list(
        request, rows, SavedViewSchema, _describe, limit=limit, cursor=cursor, fields=fields
    )


@router.post(
    "views",
    auth=EXPERIMENTS,
    response={201: SavedViewSchema, 409: ProblemSchema, 422: ProblemSchema, **REFUSED},
)
@idempotent
def save_own_view(request: ApiRequest, view: NewSavedView) -> HttpResponse:
    """Save a state of the list of runs, or of that of experiments."""
    try:
        row = save_view(request.user, view.name, view.query, SavedView.Page(view.of))
    except ViewNotSaved as why:
        detail = f"Not saved: {why}"
        if not why.field:
            raise Problem(HTTPStatus.CONFLICT, detail) from why
        problems = [FieldProblem(why.field, detail)]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, problems) from why
    (described,) = _describe([row])
    answer = send_row(request, described.model_dump(mode="json"))
    answer.status_code = HTTPStatus.CREATED
    return answer


@router.delete("views/{pk}", auth=EXPERIMENTS, response={204: None, **REFUSED})
def delete_saved_view(request: ApiRequest, pk: Key) -> HttpResponse:
    """Delete one of one's own saved views. What it lists stays as it is."""
    get_object_or_404(SavedView, pk=pk, owner=request.user).delete()
    return HttpResponse(status=HTTPStatus.NO_CONTENT)
