"""Links by which people without an account read an experiment or a published table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Field, Path, Schema

from dashboard.access.link_views import LinkForm, write_link_address
from dashboard.api.experiment_actions import find_own
from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.form_bodies import StrictBody, require_valid
from dashboard.api.hidden_variables import hide_variables
from dashboard.api.idempotency import idempotent, send_secret
from dashboard.api.list_parts import send_row
from dashboard.api.problems import Problem, ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.table_routes import find_own_table
from dashboard.api.tokens import EXPERIMENTS, READ
from experiments.execution.link_actions import list_links, make_link, withdraw_link
from experiments.models import ShareLink
from experiments.models.link import USUAL_DAYS

router = Router(tags=["Links"])
WITHDRAWN = "It is withdrawn already."
LinkKey = Annotated[int, Path(ge=1, lt=2**63, description="The id of a link.")]
Find = Callable[[ApiRequest, int], Any]


class LinkSchema(Schema):
    """A link that is not withdrawn. Everyone who has its address reads without an account."""

    id: int
    address: str | None
    made_by: str
    made_at: datetime
    expires_at: datetime
    hides_names: bool


class LinkList(Schema):
    """All links of one row that are not withdrawn."""

    items: list[LinkSchema]


class NewLink(StrictBody):
    """How long a link lasts, and what it hides."""

    days: Annotated[int, Field(ge=1, lt=2**31)] = Field(
        USUAL_DAYS, description="After which it ends."
    )
    hides_names: bool = Field(
        False, description="Names of people, machines and paths get a number of their own."
    )


def _describe(request: ApiRequest, link: ShareLink) -> LinkSchema:
    return LinkSchema(
        id=link.pk,
        address=write_link_address(request, link) or None,
        made_by=str(link.made_by) if link.made_by else "",
        made_at=link.made_at,
        expires_at=link.expires_at,
        hides_names=link.hides_names,
    )


def _add_routes(place: str, noun: str, find: Find) -> None:
    def list_row_links(request: ApiRequest, pk: Key) -> HttpResponse:
        items = [_describe(request, link) for link in list_links(find(request, pk))]
        return send_row(request, LinkList(items=items).model_dump(mode="json"))

    def make_row_link(request: ApiRequest, pk: Key, new: NewLink) -> HttpResponse:
        row = find(request, pk)
        form = LinkForm(new.model_dump())
        require_valid(form)
        ends = timezone.now() + timedelta(days=form.cleaned_data["days"])
        hides = form.cleaned_data["hides_names"]
        link = make_link(row, request.user, expires_at=ends, hides_names=hides)
        content = _describe(request, link).model_dump(mode="json")
        return send_secret(content, "address", HTTPStatus.CREATED)

    def withdraw_row_link(request: ApiRequest, pk: Key, link: LinkKey) -> HttpResponse:
        row = find(request, pk)
        found: ShareLink = get_object_or_404(ShareLink.objects.of(row), pk=link)
        if not withdraw_link(found, row, request.user):
            raise Problem(HTTPStatus.CONFLICT, WITHDRAWN)
        return HttpResponse(status=HTTPStatus.NO_CONTENT)

    list_row_links.__doc__ = f"List the links of {noun} that are not withdrawn, for its owner."
    make_row_link.__doc__ = f"Make a link: everyone who has it reads {noun} without an account."
    withdraw_row_link.__doc__ = f"Have a link of {noun} open nothing any more."
    word = place.removesuffix("s")
    list_row_links.__name__ = f"list_{word}_links"
    make_row_link.__name__ = f"make_{word}_link"
    withdraw_row_link.__name__ = f"withdraw_{word}_link"
    address = f"{place}/{{pk}}/links"
    router.get(address, auth=READ, response={200: LinkList, **REFUSED})(list_row_links)
    router.post(
        address, auth=EXPERIMENTS, response={201: LinkSchema, 422: ProblemSchema, **REFUSED}
    )(idempotent(hide_variables(make_row_link)))
    router.delete(
        f"{address}/{{link}}",
        auth=EXPERIMENTS,
        response={204: None, 409: ProblemSchema, **REFUSED},
    )(withdraw_row_link)


_add_routes("experiments", "an experiment", find_own)
_add_routes("tables", "a published table", find_own_table)
