"""Credentials by the API: made, imported, shared, tested, rotated and deleted. Never sent out."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.debug import sensitive_variables
from ninja import Query

from dashboard.api.credential_schemas import (
    CredentialChange,
    CredentialItem,
    CredentialList,
    CredentialSchema,
    ImportedCredential,
    NewCertificate,
    NewCredential,
    Sharing,
    describe_credential,
    describe_item,
)
from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.filled_forms import fill_in
from dashboard.api.form_bodies import INVALID, require_valid
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.list_parts import MOST, USUAL, send_content, send_list
from dashboard.api.problems import (
    FieldProblem,
    Problem,
    ProblemSchema,
    refusals_as_conflicts,
    refuse,
)
from dashboard.api.requests import ApiRequest
from dashboard.api.routers import Router
from dashboard.api.tokens import CLUSTERS, READ
from dashboard.clusters.credential_forms import (
    CredentialForm,
    ImportForm,
    ShareForm,
    list_others,
)
from experiments.access import audit
from experiments.access.permissions import why_not_add, why_not_change
from experiments.clusters import connection_tests
from experiments.clusters import credentials as keys
from experiments.models import Credential, Origin
from experiments.notify import enqueue_visit

router = Router(tags=["Clusters"])


NOT_NOW: dict[int, Any] = {409: ProblemSchema, 422: ProblemSchema, **REFUSED}
CHANGED: dict[int, Any] = {200: CredentialSchema, **NOT_NOW}
MADE: dict[int, Any] = {
    201: CredentialSchema,
    403: ProblemSchema,
    409: ProblemSchema,
    422: ProblemSchema,
}


def _send(request: ApiRequest, pk: int, status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    answer = send_content(request, describe_credential(_find(request, pk)), status)
    if status == HTTPStatus.CREATED:
        answer["Location"] = reverse("api:read_credential", args=[pk])
    return answer


@router.get(
    "credentials",
    auth=READ,
    response={200: CredentialList, 401: ProblemSchema, 403: ProblemSchema, 422: ProblemSchema},
)
def list_credentials(
    request: ApiRequest,
    limit: Annotated[int, Query(ge=1, le=MOST)] = USUAL,
    cursor: str = "",
    fields: str = "",
) -> HttpResponse:
    """List the credentials that one may use, the newest first."""
    refuse(why_not_add(request.user, Credential))
    rows = Credential.objects.usable_by(request.user).select_related("owner")
    return send_list(
        request,
        rows,
        CredentialItem,
        lambda shown: (describe_item(row) for row in shown),
        limit=limit,
        cursor=cursor,
        fields=fields,
    )


@router.get(
    "credentials/{pk}",
    auth=READ,
    url_name="read_credential",
    response={200: CredentialSchema, **REFUSED},
)
def read_credential(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return one credential, without its secrets."""
    return _send(request, pk)


@router.post("credentials", auth=CLUSTERS, response=MADE)
@idempotent
def make_credential(request: ApiRequest, new: NewCredential) -> HttpResponse:
    """Make a key pair here; the answer has the line that installs its public key."""
    refuse(why_not_add(request.user, Credential))
    form = fill_in(lambda *bound: CredentialForm(*bound[:1]), new.model_dump(exclude_unset=True))
    require_valid(form)
    row = keys.add(form.instance, keys.make_pair(), Origin.GENERATED, request.user)
    return _send(request, row.pk, HTTPStatus.CREATED)


@router.post("credentials/import", auth=CLUSTERS, throttle=HEAVY, response=MADE)
@idempotent
def import_credential(request: ApiRequest, new: ImportedCredential) -> HttpResponse:
    """Import a key; it is stored encrypted."""
    refuse(why_not_add(request.user, Credential))
    form = _fill_in_key(new)
    require_valid(form)
    assert form.pair
    row = keys.add(form.instance, form.pair, Origin.IMPORTED, request.user)
    return _send(request, row.pk, HTTPStatus.CREATED)


@sensitive_variables()
def _fill_in_key(new: ImportedCredential) -> ImportForm:
    values = new.model_dump(exclude_unset=True)
    for name in {"private_key", "passphrase"} & values.keys():
        values[name] = getattr(new, name).get_secret_value()
    return fill_in(ImportForm, values)


@router.patch("credentials/{pk}", auth=CLUSTERS, response=CHANGED)
def change_credential(request: ApiRequest, pk: Key, change: CredentialChange) -> HttpResponse:
    """Change the name and the account of a credential, and what its key may do."""
    row = _find_own(request, pk)
    values = change.model_dump(exclude_unset=True)
    form = fill_in(lambda *bound: CredentialForm(*bound[:1], instance=row), values)
    require_valid(form)
    with audit.log_change(request.user, row):
        form.save()
    return _send(request, pk)


@router.post("credentials/{pk}/share", auth=CLUSTERS, response=CHANGED)
@idempotent
def share_credential(request: ApiRequest, pk: Key, sharing: Sharing) -> HttpResponse:
    """Set which people and groups may use a credential."""
    row = _find_own(request, pk)
    people = dict(list_others(row).values_list("username", "pk"))
    problems = [
        FieldProblem("users", f"There is nobody called {name[:50]} who could use it.")
        for name in sharing.users
        if name not in people
    ]
    if problems:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)
    form = ShareForm(
        {"users": [people[name] for name in sharing.users], "groups": sharing.groups},
        instance=row,
    )
    require_valid(form)
    chosen = form.cleaned_data
    keys.share(row, chosen["users"], chosen["groups"], request.user)
    return _send(request, pk)


@router.post("credentials/{pk}/certificate", auth=CLUSTERS, response=CHANGED)
@idempotent
def add_certificate(request: ApiRequest, pk: Key, new: NewCertificate) -> HttpResponse:
    """Add or renew the certificate of a key, or of the next one."""
    row = _find_own(request, pk)
    with refusals_as_conflicts(keys.NotDone):
        keys.add_certificate(row, new.certificate, request.user)
    return _send(request, pk)


@router.post(
    "credentials/{pk}/test",
    auth=CLUSTERS,
    throttle=HEAVY,
    response={202: CredentialSchema, **NOT_NOW},
)
@idempotent
def try_credential(
    request: ApiRequest,
    pk: Key,
    new_key: Annotated[
        bool,
        Query(description="Try the new key of a rotation; where it works, it is taken."),
    ] = False,
) -> HttpResponse:
    """Have Tare log in on every cluster that uses a credential."""
    row = _find(request, pk)
    if new_key:
        refuse(why_not_change(request.user, row))
        if not row.is_rotating:
            raise Problem(HTTPStatus.CONFLICT, "There is no new key to try.")
    enqueue_visit(connection_tests.request_test(row, request.user, new_key=new_key))
    return _send(request, pk, HTTPStatus.ACCEPTED)


@router.post("credentials/{pk}/rotate", auth=CLUSTERS, response=CHANGED)
@idempotent
def rotate_credential(request: ApiRequest, pk: Key) -> HttpResponse:
    """Make a new key pair beside the one in use."""
    return _do(request, pk, keys.begin_rotation)


@router.post("credentials/{pk}/give-up", auth=CLUSTERS, response=CHANGED)
@idempotent
def give_up_rotation(request: ApiRequest, pk: Key) -> HttpResponse:
    """Erase the new key pair of a rotation; the old one stays."""
    return _do(request, pk, keys.give_up_rotation)


@router.delete(
    "credentials/{pk}", auth=CLUSTERS, response={204: None, 409: ProblemSchema, **REFUSED}
)
def delete_credential(request: ApiRequest, pk: Key) -> HttpResponse:
    """Erase a credential that no cluster uses."""
    row = _find_own(request, pk)
    with refusals_as_conflicts(keys.NotDone):
        keys.delete(row, request.user)
    return HttpResponse(status=HTTPStatus.NO_CONTENT)


def _do(request: ApiRequest, pk: int, change: Callable[[Credential, Any], None]) -> HttpResponse:
    row = _find_own(request, pk)
    with refusals_as_conflicts(keys.NotDone):
        change(row, request.user)
    return _send(request, pk)


def _find(request: ApiRequest, pk: int) -> Credential:
    """Return a credential that one may use. Raises Problem 403 or Http404."""
    refuse(why_not_add(request.user, Credential))
    rows = Credential.objects.usable_by(request.user).select_related("owner")
    return get_object_or_404(rows, pk=pk)


def _find_own(request: ApiRequest, pk: int) -> Credential:
    """Return a credential that one may change. Raises Problem 403 or Http404."""
    row = _find(request, pk)
    refuse(why_not_change(request.user, row))
    return row
