"""The publication of an experiment by the API: who wrote it, its licence, and its deposit."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse
from ninja import Field, Schema

from dashboard.api.experiment_actions import find_own
from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.form_bodies import INVALID, StrictBody, list_form_problems
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.list_parts import send_row
from dashboard.api.problems import FieldProblem, Problem, ProblemSchema
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import EXPERIMENTS, READ
from dashboard.publishing.citation_forms import CitationForm, write_authors
from experiments import deposits
from experiments.citations import Author, describe_citation, save_citation, why_not_state
from experiments.models import Deposit, Experiment

router = Router(tags=["Publication"])
NO_SIGNS = {"family": ",;\n\r", "given": ";\n\r", "orcid": ";\n\r", "affiliation": "\n\r"}
"""What parts the authors in the form of the page; an affiliation may have semicolons."""
NO_PART = "It has no line break, a name no semicolon, and a family name no comma."


class AuthorSchema(StrictBody):
    """A person who is named as an author."""

    family: str = Field(min_length=1)
    given: str = ""
    orcid: str = ""
    affiliation: str = ""


class DepositSchema(Schema):
    """The deposit of an experiment's bundle."""

    state: str
    doi: str
    page: str
    publishes: bool
    sent_bytes: int
    total_bytes: int
    problem: str


class PublicationSchema(Schema):
    """How an experiment is cited, and where it is deposited."""

    title: str
    authors: list[AuthorSchema]
    licence: str
    doi: str
    is_published: bool
    deposit: DepositSchema | None
    missing: list[str]


class CitationChange(StrictBody):
    """What is to be another; what is not sent stays."""

    title: str | None = Field(None, description="Empty: the question of the experiment.")
    authors: list[AuthorSchema] | None = Field(None, description="In their order.")
    licence: str | None = Field(None, description="An identifier of SPDX, such as CC-BY-4.0.")


class DepositRequest(StrictBody):
    """Whether the deposit is published at once: that cannot be undone."""

    publish: bool = False


CHANGED: dict[int, Any] = {
    200: PublicationSchema,
    409: ProblemSchema,
    422: ProblemSchema,
    **REFUSED,
}


def _describe(row: Experiment, request: ApiRequest) -> PublicationSchema:
    cited = describe_citation(row)
    deposit = Deposit.objects.filter(experiment=row).first()
    names = DepositSchema.model_fields
    return PublicationSchema(
        title=cited.title,
        authors=[AuthorSchema(**vars(author)) for author in cited.authors],
        licence=cited.licence,
        doi=cited.doi,
        is_published=cited.is_published,
        deposit=DepositSchema(**{name: getattr(deposit, name) for name in names})
        if deposit
        else None,
        missing=deposits.list_missing(row, request.user) if deposits.is_offered() else [],
    )


def _send(request: ApiRequest, pk: int) -> HttpResponse:
    row = find_own(request, pk)  # anew: a row remembers its citation
    return send_row(request, _describe(row, request).model_dump(mode="json"))


@router.get("experiments/{pk}/publication", auth=READ, response={200: PublicationSchema, **REFUSED})
def show_publication(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return how an experiment of one's own is cited, and what a deposit still lacks."""
    return _send(request, pk)


@router.patch("experiments/{pk}/publication", auth=EXPERIMENTS, response=CHANGED)
def change_publication(request: ApiRequest, pk: Key, change: CitationChange) -> HttpResponse:
    """State authors, licence and title; all of it, or nothing."""
    row = find_own(request, pk)
    if why_not := why_not_state(row):
        raise Problem(HTTPStatus.CONFLICT, f"Not saved. {why_not}")
    cited = describe_citation(row)
    authors: list[Author] = list(cited.authors)
    if change.authors is not None:
        authors = [_read_author(place, sent) for place, sent in enumerate(change.authors)]
    title = "" if cited.title == row.question else cited.title
    form = CitationForm(
        {
            "authors": write_authors(authors),
            "licence": cited.licence if change.licence is None else change.licence,
            "title": title if change.title is None else change.title,
        }
    )
    if problems := list_form_problems(form):
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)
    save_citation(row, request.user, **form.cleaned_data)
    return _send(request, pk)


def _read_author(place: int, sent: AuthorSchema) -> Author:
    """Return an author. The form of the page takes one a line, with semicolons between parts."""
    values = sent.model_dump()
    for name, value in values.items():
        if any(sign in value for sign in NO_SIGNS[name]):
            problems = [FieldProblem(f"authors.{place}.{name}", NO_PART)]
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)
    return Author(**values)


@router.post("experiments/{pk}/deposit", auth=EXPERIMENTS, throttle=HEAVY, response=CHANGED)
@idempotent
def deposit_experiment(request: ApiRequest, pk: Key, choices: DepositRequest) -> HttpResponse:
    """Have the bundle deposited as a draft or published, or go on where that stopped."""
    return _do(
        request,
        pk,
        lambda row: deposits.request_deposit(row, request.user, publishes=choices.publish),
    )


@router.post("experiments/{pk}/deposit/stop", auth=EXPERIMENTS, throttle=HEAVY, response=CHANGED)
@idempotent
def stop_deposit(request: ApiRequest, pk: Key) -> HttpResponse:
    """Stop a deposit that waits or is under way."""
    return _do(request, pk, lambda row: deposits.stop_deposit(row, request.user))


@router.delete("experiments/{pk}/deposit", auth=EXPERIMENTS, response=CHANGED)
def forget_deposit(request: ApiRequest, pk: Key) -> HttpResponse:
    """Forget the draft of a deposit, so that another one can be made; it stays where it is."""
    return _do(request, pk, lambda row: deposits.forget_deposit(row, request.user))


def _do(request: ApiRequest, pk: int, act: Callable[[Experiment], Any]) -> HttpResponse:
    row = find_own(request, pk)
    try:
        act(row)
    except deposits.NotDone as reason:
        raise Problem(HTTPStatus.CONFLICT, f"Not done. {reason}") from reason
    return _send(request, pk)
