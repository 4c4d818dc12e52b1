"""Pages on credentials: generate, import, share, test, rotate and delete them. Never shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.access.rights import require
from dashboard.clusters.credential_forms import (
    CertificateForm,
    CredentialForm,
    ImportForm,
    ShareForm,
)
from dashboard.lists import WordFilter, make_listing
from dashboard.live_parts import answer_news_only
from dashboard.typed_requests import Request
from experiments.access import audit
from experiments.access.permissions import may_change, why_not_add, why_not_change
from experiments.clusters import authorized_keys, connection_tests
from experiments.clusters import credentials as keys
from experiments.execution import live_marks
from experiments.models import Cluster, Credential, Origin
from experiments.models.compiled_rows import KEY, CompiledReaderRows, CompiledRows
from experiments.notify import enqueue_visit

SORTS = {"name": "name", "account": "user_name", "used": "last_used_at"}
ENTRIES = 20  # of its history
USABLE = CompiledReaderRows(
    lambda reader, pk: (
        Credential.objects.usable_by(reader).filter(pk=pk).select_related("owner").order_by()
    ),
    KEY,
)
OPENED = CompiledRows(
    lambda credential: Cluster.objects.filter(credential=credential).only("name", "credential"),
    KEY,
)
"""The clusters that a credential opens, by their names."""


class CredentialFilter(WordFilter):
    """The filter of the list of credentials."""

    q = forms.CharField(label="Name or account", max_length=300)


@require_safe
def credentials(request: Request) -> HttpResponse:
    """List the credentials that the reader may use."""
    _only_for_makers(request)
    filters = CredentialFilter(request)
    by_name_or_account = Q(name__icontains=filters.search_text) | Q(
        user_name__icontains=filters.search_text
    )
    rows = Credential.objects.usable_by(request.user).filter(by_name_or_account)
    rows = rows.select_related("owner").prefetch_related("clusters", "users", "groups")
    credentials_listing = make_listing(request, rows, sorts=SORTS, default="name")
    return render(
        request,
        "clusters/credentials/list.html",
        {"listing": credentials_listing, "filter": filters},
    )


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: Request) -> HttpResponse:
    """Generate a key pair here: the private key never travels."""
    _only_for_makers(request)
    form = CredentialForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        row = keys.add(form.instance, keys.make_pair(), Origin.GENERATED, request.user)
        messages.success(request, f"{row} is made. Install its public key, then test it.")
        return redirect(row)
    return render(request, "clusters/credentials/new.html", {"form": form})


@sensitive_post_parameters("private_key", "passphrase")
@require_http_methods(["GET", "HEAD", "POST"])
def hand_in(request: Request) -> HttpResponse:
    """Import an existing key."""
    _only_for_makers(request)
    form = ImportForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid() and form.pair:
        row = keys.add(form.instance, form.pair, Origin.IMPORTED, request.user)
        messages.success(request, f"{row} is kept, encrypted: {row.fingerprint}.")
        return redirect(row)
    return render(request, "clusters/credentials/import.html", {"form": form})


def _mark_live_part(request: Request, pk: int) -> str | None:
    return live_marks.CREDENTIAL.read(request.user, pk)


@require_safe
@answer_news_only(_mark_live_part)
def credential(request: Request, pk: int) -> HttpResponse:
    """Show one credential, without its secrets."""
    return _page(request, _readable(request, pk))


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: Request, pk: int) -> HttpResponse:
    """Change a credential's name and account; its key can only be rotated."""
    row = _changeable(request, pk)
    form = CredentialForm(request.POST or None, instance=row)
    if request.method == "POST" and form.is_valid():
        with audit.log_change(request.user, row):
            form.save()
        return redirect(row)
    return render(request, "clusters/credentials/new.html", {"form": form, "credential": row})


@require_safe
def gate_script(request: Request) -> HttpResponse:
    """Send the script of the forced command: no secret, and the same for every key."""
    answer = HttpResponse(
        authorized_keys.read_gate_script(), content_type="text/x-python; charset=utf-8"
    )
    answer["Content-Disposition"] = 'inline; filename="tare-gate.py"'
    return answer


@require_POST
def share(request: Request, pk: int) -> HttpResponse:
    """Set which people and groups may use the credential."""
    row = _changeable(request, pk)
    form = ShareForm(request.POST, instance=row)
    if not form.is_valid():
        return _page(request, row, share=form)
    keys.share(row, form.cleaned_data["users"], form.cleaned_data["groups"], request.user)
    messages.success(request, "Kept who may use it.")
    return redirect(row)


@require_POST
def certificate(request: Request, pk: int) -> HttpResponse:
    """Add or renew a certificate: it must belong to the key, or to the next one."""
    row = _changeable(request, pk)
    form = CertificateForm(request.POST, request.FILES)
    form.is_valid()  # nothing in it is required
    try:
        added = keys.add_certificate(row, form.text(), request.user)
    except ValidationError as problem:
        form.add_error("certificate_file", problem)
    except keys.NotDone as problem:
        form.add_error("certificate", str(problem))
    else:
        messages.success(request, f"The certificate {added.key_id} is kept: {added.dates}.")
        return redirect(row)
    return _page(request, row, certificate_form=form)


@require_POST
def test(request: Request, pk: int) -> HttpResponse:
    """Log in on every cluster that uses the credential, with its key or with the next one."""
    row = _readable(request, pk)
    new_key = "new" in request.POST
    if new_key:
        require(why_not_change(request.user, row))
    enqueue_visit(
        connection_tests.request_test(row, request.user, new_key=new_key and row.is_rotating)
    )
    return redirect(f"{row.get_absolute_url()}#{'rotation' if new_key else 'tests'}")


@require_POST
def rotate(request: Request, pk: int) -> HttpResponse:
    """Make a new key pair beside the one in use."""
    return _do(
        request,
        pk,
        keys.begin_rotation,
        "A new pair is made. Install its line beside the old one, then try it.",
    )


@require_POST
def give_up(request: Request, pk: int) -> HttpResponse:
    """Erase the new key pair of a rotation; the old one stays."""
    return _do(request, pk, keys.give_up_rotation, "The new key is erased; the old one stays.")


@require_POST
def delete(request: Request, pk: int) -> HttpResponse:
    """Delete the credential, or say why it cannot be deleted yet."""
    row = _changeable(request, pk)
    try:
        keys.delete(row, request.user)
    except keys.NotDone as problem:
        messages.error(request, f"Not deleted: {problem}")
        return redirect(row)
    messages.success(request, f"{row} is erased. Take its line out of ~/.ssh/authorized_keys.")
    return redirect("credentials")


def _do(
    request: Request, pk: int, change: Callable[[Credential, Any], None], message: str
) -> HttpResponse:
    row = _changeable(request, pk)
    try:
        change(row, request.user)
    except keys.NotDone as problem:
        messages.error(request, str(problem))
    else:
        messages.success(request, message)
    return redirect(f"{row.get_absolute_url()}#rotation")


def _page(request: Request, row: Credential, **forms: Any) -> HttpResponse:
    context = _prepare_live_part(request, row)
    if request.htmx:
        return render(request, "clusters/credentials/detail.html#live", context)
    context |= {
        "entries": audit.list_entries(row)[:ENTRIES],
        "share": ShareForm(instance=row),
        "certificate_form": CertificateForm(),
    }
    return render(request, "clusters/credentials/detail.html", context | forms)


def _prepare_live_part(request: Request, row: Credential) -> dict[str, Any]:
    """Return what is shown of a credential beside its forms and its history."""
    return {
        "credential": row,
        "clusters": OPENED.read(row.pk),
        "lines": authorized_keys.make_lines(row, keys.find_public_key(row)),
        "next_lines": authorized_keys.make_lines(row, row.next_public_key)
        if row.is_rotating
        else [],
        "gate_version": authorized_keys.GATE_VERSION,
        "gate_digest": authorized_keys.compute_gate_digest(),
        "certificate": keys.read_certificate(row.certificate),
        "next_certificate": keys.read_certificate(row.next_certificate),
        "tests": connection_tests.get_latest_tests(row),
        "may_change": may_change(request.user, row),
    }


def _readable(request: Request, pk: int) -> Credential:
    _only_for_makers(request)
    row = USABLE.find(request.user, pk)
    if row is None:
        raise Http404
    return row


def _changeable(request: Request, pk: int) -> Credential:
    row = _readable(request, pk)
    require(why_not_change(request.user, row))
    return row


def _only_for_makers(request: Request) -> None:
    require(why_not_add(request.user, Credential))
