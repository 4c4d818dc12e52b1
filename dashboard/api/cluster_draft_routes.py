"""Clusters added by the API, step by step as on the pages: no host is trusted by itself.

Address, host key (confirmed by its fingerprint), credential, test, confirmation.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse

from dashboard.api.catalogue_routes import send_described
from dashboard.api.catalogue_schemas import ClusterSchema
from dashboard.api.cluster_draft_schemas import (
    AddressChange,
    ChosenCredential,
    ClusterDraftSchema,
    Confirmation,
    ConfirmedHostKey,
    DraftList,
    NewAddress,
    NewClusterByHand,
    WorkDirectory,
    describe_draft,
)
from dashboard.api.experiment_routes import REFUSED, Key
from dashboard.api.filled_forms import fill_in, refuse_unknown_names
from dashboard.api.form_bodies import INVALID, list_form_problems, require_valid
from dashboard.api.idempotency import idempotent
from dashboard.api.limits import HEAVY
from dashboard.api.list_parts import send_content
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
from dashboard.api.tokens import CLUSTERS, READ
from dashboard.clusters.carried_cluster_forms import CarriedClusterForm
from dashboard.clusters.cluster_confirmation import (
    READ_AGAIN,
    add_cluster,
    is_complete,
    make_cluster_form,
    make_partition_row,
)
from dashboard.clusters.new_cluster_forms import (
    AddressForm,
    CredentialChoiceForm,
    PartitionRow,
    WorkDirectoryForm,
)
from experiments.access.permissions import why_not_add
from experiments.clusters import cluster_drafts as drafts
from experiments.clusters.by_hand_clusters import add_by_hand
from experiments.models import Cluster, ClusterDraft
from experiments.notify import enqueue_visit

router = Router(tags=["Clusters"])
NOT_NOW: dict[int, Any] = {409: ProblemSchema, 422: ProblemSchema, **REFUSED}
CHANGED: dict[int, Any] = {200: ClusterDraftSchema, **NOT_NOW}
STARTED: dict[int, Any] = {202: ClusterDraftSchema, **NOT_NOW}
NOT_READY = "Confirm the host key and choose a credential first."
NOT_READ = "Nothing was read of it yet, or its address, key or credential is another one since."
ONE_KEY = "Send the “fingerprint” of the key that was fetched, or a “line” of known_hosts."


@router.get("cluster-drafts", auth=READ, response={200: DraftList, 401: ProblemSchema})
def list_cluster_drafts(request: ApiRequest) -> HttpResponse:
    """List the clusters that one is adding."""
    refuse(why_not_add(request.user, Cluster))
    rows = request.user.cluster_drafts.select_related("owner", "credential", "jump_host")
    return send_content(request, DraftList(items=[describe_draft(row) for row in rows]))


@router.get("cluster-drafts/{pk}", auth=READ, response={200: ClusterDraftSchema, **REFUSED})
def read_cluster_draft(request: ApiRequest, pk: Key) -> HttpResponse:
    """Return how far a cluster is that one is adding, and what was found of it."""
    return _send(request, pk)


@router.post(
    "cluster-drafts",
    auth=CLUSTERS,
    throttle=HEAVY,
    response={201: ClusterDraftSchema, 403: ProblemSchema, 409: ProblemSchema, 422: ProblemSchema},
)
@idempotent
def begin_cluster(request: ApiRequest, new: NewAddress) -> HttpResponse:
    """Begin to add a cluster: its host is asked for its key."""
    refuse(why_not_add(request.user, Cluster))
    draft = _store_address(ClusterDraft(owner=request.user), new.model_dump(exclude_unset=True))
    answer = _send(request, draft.pk, HTTPStatus.CREATED)
    answer["Location"] = reverse("api:read_cluster_draft", args=[draft.pk])
    return answer


@router.patch("cluster-drafts/{pk}", auth=CLUSTERS, response=CHANGED)
def change_address(request: ApiRequest, pk: Key, change: AddressChange) -> HttpResponse:
    """Change the address; a host key that was confirmed for another one is forgotten."""
    _store_address(_find(request, pk), change.model_dump(exclude_unset=True))
    return _send(request, pk)


def _store_address(draft: ClusterDraft, values: dict[str, Any]) -> ClusterDraft:
    form = fill_in(lambda *bound: AddressForm(*bound[:1], instance=draft), values)
    require_valid(form)
    with refusals_as_conflicts(drafts.NotDone), transaction.atomic():
        drafts.save_draft(form.instance)
        if not form.instance.host_key:
            enqueue_visit(drafts.request_host_key(form.instance))
    row: ClusterDraft = form.instance
    return row


@router.post("cluster-drafts/{pk}/host-key/fetch", auth=CLUSTERS, throttle=HEAVY, response=STARTED)
@idempotent
def fetch_draft_host_key(request: ApiRequest, pk: Key) -> HttpResponse:
    """Have the key fetched that the host shows, for a person to compare."""
    draft = _find(request, pk)
    with refusals_as_conflicts(drafts.NotDone):
        enqueue_visit(drafts.request_host_key(draft))
    return _send(request, pk, HTTPStatus.ACCEPTED)


@router.post("cluster-drafts/{pk}/host-key", auth=CLUSTERS, throttle=HEAVY, response=CHANGED)
@idempotent
def confirm_host_key(request: ApiRequest, pk: Key, key: ConfirmedHostKey) -> HttpResponse:
    """Trust a host key that a person has compared, by its fingerprint or as a known_hosts line."""
    draft = _find(request, pk)
    if (key.fingerprint is None) == (key.line is None):
        problems = [FieldProblem("fingerprint", ONE_KEY)]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)
    with refusals_as_conflicts(drafts.NotDone):
        if key.fingerprint is not None:
            drafts.confirm_host_key(draft, key.fingerprint.strip())
        else:
            drafts.paste_host_key(draft, key.line or "")
    return _send(request, pk)


@router.post("cluster-drafts/{pk}/credential", auth=CLUSTERS, response=CHANGED)
@idempotent
def choose_credential(request: ApiRequest, pk: Key, chosen: ChosenCredential) -> HttpResponse:
    """Choose the credential by which Tare is to log in."""
    draft = _find(request, pk)
    if not draft.host_key:
        raise Problem(HTTPStatus.CONFLICT, NOT_READY)
    form = CredentialChoiceForm({"credential": chosen.credential}, user=request.user)
    require_valid(form)
    drafts.choose_credential(draft, form.cleaned_data["credential"])
    return _send(request, pk)


@router.post("cluster-drafts/{pk}/test", auth=CLUSTERS, throttle=HEAVY, response=STARTED)
@idempotent
def try_cluster_draft(request: ApiRequest, pk: Key, test: WorkDirectory) -> HttpResponse:
    """Have Tare log in and read what the cluster offers."""
    draft = _find(request, pk)
    if draft.next_step != "test":
        raise Problem(HTTPStatus.CONFLICT, NOT_READY)
    values = test.model_dump(exclude_unset=True)
    form = fill_in(lambda *bound: WorkDirectoryForm(*bound[:1], instance=draft), values)
    require_valid(form)
    form.instance.save(update_fields=["work_directory"])
    with refusals_as_conflicts(drafts.NotDone):
        enqueue_visit(drafts.request_offer(draft))
    return _send(request, pk, HTTPStatus.ACCEPTED)


@router.post(
    "cluster-drafts/{pk}/confirm",
    auth=CLUSTERS,
    throttle=HEAVY,
    response={201: ClusterSchema, **NOT_NOW},
)
@idempotent
def confirm_cluster(request: ApiRequest, pk: Key, chosen: Confirmation) -> HttpResponse:
    """Add a cluster with what is chosen of what was found there; Tare then checks it."""
    draft = _find(request, pk)
    last = drafts.get_latest_offer(draft).last
    offer = last.offer if last else None
    if draft.next_step != "test" or last is None or offer is None:
        raise Problem(HTTPStatus.CONFLICT, NOT_READ)
    if chosen.reading != last.pk:
        refuse_now(READ_AGAIN)
    offered = {row.name: number for number, row in enumerate(offer.partitions)}
    refuse_unknown_names(chosen.partitions, offered, "partitions.")
    values = chosen.model_dump(mode="json", exclude_unset=True, exclude={"partitions"})
    form = fill_in(lambda *bound: make_cluster_form(draft, last, offer, *bound[:1]), values)
    rows = []
    for name, number in offered.items():
        of_row: dict[str, Any] = {"chosen": name in chosen.partitions}
        if of_row["chosen"]:
            of_row |= chosen.partitions[name].model_dump(exclude_unset=True)
        rows.append(
            fill_in(
                lambda *bound, number=number: make_partition_row(offer, number, *bound[:1]), of_row
            )
        )
    if not is_complete(form, rows, last):
        problems = [*list_form_problems(form), *_list_row_problems(rows)]
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID, problems)
    with refusals_as_conflicts(drafts.NotDone):
        made = add_cluster(draft, last, form, rows)
    return send_described(request, "clusters", made.pk, status=HTTPStatus.CREATED)


def _list_row_problems(rows: list[PartitionRow]) -> list[FieldProblem]:
    return [
        FieldProblem(f"partitions.{row.found.name}.{problem.field}".rstrip("."), problem.message)
        for row in rows
        for problem in list_form_problems(row)
    ]


@router.delete("cluster-drafts/{pk}", auth=CLUSTERS, response={204: None, **REFUSED})
def discard_cluster_draft(request: ApiRequest, pk: Key) -> HttpResponse:
    """Forget a cluster that was not added; a credential that was made for it stays."""
    _find(request, pk).delete()
    return HttpResponse(status=HTTPStatus.NO_CONTENT)


@router.post(
    "clusters/by-hand",
    auth=CLUSTERS,
    response={201: ClusterSchema, 403: ProblemSchema, 409: ProblemSchema, 422: ProblemSchema},
)
@idempotent
def add_cluster_by_hand(request: ApiRequest, new: NewClusterByHand) -> HttpResponse:
    """Add a machine that Tare cannot reach, as a person describes it."""
    refuse(why_not_add(request.user, Cluster))
    form = fill_in(
        lambda *bound: CarriedClusterForm(*bound[:1]),
        new.model_dump(mode="json", exclude_unset=True),
    )
    require_valid(form)
    with refusals_as_conflicts(drafts.NotDone):
        row = add_by_hand(form.make_cluster(request.user), form.make_partition(), request.user)
    return send_described(request, "clusters", row.pk, status=HTTPStatus.CREATED)


def _send(request: ApiRequest, pk: int, status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    return send_content(request, describe_draft(_find(request, pk)), status)


def _find(request: ApiRequest, pk: int) -> ClusterDraft:
    """Return a draft of one's own. Raises Problem 403 or Http404."""
    refuse(why_not_add(request.user, Cluster))
    rows = ClusterDraft.objects.select_related("owner", "credential", "jump_host")
    return get_object_or_404(rows, pk=pk, owner=request.user)
