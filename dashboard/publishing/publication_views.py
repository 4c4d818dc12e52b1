"""The page of an experiment's publication: authors, licence, citation, signature and deposit."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.access.hidden_names import find_anonymity
from dashboard.access.rights import by_link, get_editable, get_readable
from dashboard.comparisons.safe_files import make_file_name
from dashboard.publishing.bibtex import write_bibtex
from dashboard.publishing.citation_forms import CitationForm, write_authors
from dashboard.typed_requests import OpenRequest, Request
from experiments import deposits
from experiments.citations import (
    Cited,
    describe_citation,
    save_citation,
    suggest_author,
    why_not_state,
    write_cff,
)
from experiments.models import Deposit, Experiment
from experiments.models.citation import find_citation
from experiments.signing import find_signer, write_allowed_signers


@require_http_methods(["GET", "HEAD", "POST"])
def publication(request: Request, pk: int) -> HttpResponse:
    """Show and save authors, licence and title; show signature and deposit."""
    row = get_editable(request, pk)
    cited = describe_citation(row)
    form = CitationForm(request.POST or None, initial=_read_initial(request, row, cited))
    why_not = why_not_state(row)
    if request.method == "POST" and why_not:
        messages.error(request, f"Not saved. {why_not}")
        return redirect("publication", pk)
    if request.method == "POST" and form.is_valid():
        save_citation(row, request.user, **form.cleaned_data)
        messages.success(request, "Saved.")
        return redirect("publication", pk)
    signer, why_unsigned = find_signer()
    context: dict[str, Any] = {
        "experiment": row,
        "form": form,
        "why_not": why_not,
        "cited": cited,
        "bibtex": write_bibtex(cited) if cited.authors else "",
        "signer": signer,
        "why_unsigned": why_unsigned,
        **_read_deposit(request, row),
    }
    template = "publishing/publication.html" + ("#deposit" if request.htmx else "")
    return render(request, template, context)


def _read_initial(request: Request, row: Experiment, cited: Cited) -> dict[str, str]:
    """Return what is stated; where nothing is, whoever opens the page is offered as the author."""
    authors = cited.authors if find_citation(row) else (suggest_author(request.user),)
    title = "" if cited.title == row.question else cited.title
    return {"authors": write_authors(authors), "licence": cited.licence, "title": title}


def _read_deposit(request: Request, row: Experiment) -> dict[str, Any]:
    deposit = Deposit.objects.select_related("owner").filter(experiment=row).first()
    if not deposits.is_offered() and deposit is None:
        return {"service": ""}
    is_elsewhere = bool(deposit and deposit.service != settings.DEPOSIT_ADDRESS)
    return {
        "deposit": deposit,
        "service": deposits.name_service(),
        "there": deposits.name_service(deposit.service) if deposit else "",
        "is_elsewhere": is_elsewhere,
        "has_token": deposits.has_token(request.user),
        "missing": deposits.list_missing(row, request.user)
        if deposit is None or not deposit.is_open
        else [],
    }


@require_POST
def change_deposit(request: Request, pk: int) -> HttpResponse:
    """Begin a deposit, go on with it, stop it, or forget its draft."""
    row = get_editable(request, pk)
    to = request.POST.get("to")
    try:
        if to in ("draft", "publish"):
            deposits.request_deposit(row, request.user, publishes=to == "publish")
        elif to == "stop":
            deposits.stop_deposit(row, request.user)
        elif to == "forget":
            deposits.forget_deposit(row, request.user)
    except deposits.NotDone as why:
        messages.error(request, f"Not done. {why}")
    return redirect(f"{_find_address(pk)}#deposit")


def _find_address(pk: int) -> str:
    return redirect("publication", pk).url


@by_link
@require_safe
def citation_bib(request: OpenRequest, pk: int) -> HttpResponse:
    """Send the experiment's entry of BibTeX."""
    row, cited = _get_citable(request, pk)
    name = make_file_name(row, "citation", ".bib")
    return _send(write_bibtex(cited).encode(), "application/x-bibtex", name)


@by_link
@require_safe
def citation_cff(request: OpenRequest, pk: int) -> HttpResponse:
    """Send the experiment's CITATION.cff."""
    _, cited = _get_citable(request, pk)
    return _send(write_cff(cited), "application/yaml", "CITATION.cff")


def _get_citable(request: OpenRequest, pk: int) -> tuple[Experiment, Cited]:
    """Return an experiment with its citation; Http404 without authors or if names are hidden."""
    row = get_readable(request, pk)
    cited = describe_citation(row)
    if not cited.authors or find_anonymity(request.user):
        raise Http404
    return row, cited


def _send(content: bytes, kind: str, name: str) -> HttpResponse:
    response = HttpResponse(content, content_type=f"{kind}; charset=utf-8")
    response["Content-Disposition"] = content_disposition_header(True, name)
    return response


@login_not_required
@require_safe
def site_key(request: OpenRequest) -> HttpResponse:
    """Send the public keys with which this site has signed bundles, as a list of ssh-keygen."""
    if not (content := write_allowed_signers()):
        raise Http404
    return HttpResponse(content, content_type="text/plain; charset=utf-8")
