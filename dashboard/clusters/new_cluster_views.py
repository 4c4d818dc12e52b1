"""The steps by which a cluster is added: address, host key, credential, test, confirmation."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.access.rights import require
from dashboard.clusters.cluster_confirmation import (
    add_cluster,
    is_complete,
    make_cluster_form,
    make_partition_rows,
)
from dashboard.clusters.credential_forms import CredentialForm, ImportForm
from dashboard.clusters.new_cluster_forms import (
    AddressForm,
    CredentialChoiceForm,
    HostKeyForm,
    WorkDirectoryForm,
)
from dashboard.typed_requests import Request, read_posted_text
from experiments.access.permissions import why_not_add
from experiments.clusters import authorized_keys
from experiments.clusters import cluster_drafts as drafts
from experiments.clusters import credentials as keys
from experiments.models import Cluster, ClusterDraft, Credential, Origin
from experiments.models.cluster_choices import scheduler_choices
from experiments.notify import enqueue_visit

STEPS = (
    ("address", "Address"),
    ("host_key", "Host key"),
    ("credential", "Credential"),
    ("test", "Test"),
    ("confirm", "Confirm"),
)
LIVE = ("host_key", "test")
"""Steps with a part that shows what is under way."""
SECONDS = 1  # between two looks at what is under way


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: Request) -> HttpResponse:
    """Begin with a cluster's name and address."""
    require(why_not_add(request.user, Cluster))
    return _edit_address(request, ClusterDraft(owner=request.user))


@require_http_methods(["GET", "HEAD", "POST"])
def address(request: Request, pk: int) -> HttpResponse:
    """Change the name and address of a cluster that is being added."""
    return _edit_address(request, _get_draft(request, pk))


def _edit_address(request: Request, draft: ClusterDraft) -> HttpResponse:
    form = AddressForm(request.POST or None, instance=draft)
    if request.method == "POST" and form.is_valid():
        try:
            drafts.save_draft(form.instance)
            if not form.instance.host_key:
                enqueue_visit(drafts.request_host_key(form.instance))
        except drafts.NotDone as problem:
            form.add_error(None, str(problem))
        else:
            return redirect("cluster_draft_host_key", form.instance.pk)
    others = request.user.cluster_drafts.exclude(pk=draft.pk)
    return _render(request, draft, "address", form=form, others=others)


@require_http_methods(["GET", "HEAD", "POST"])
def host_key(request: Request, pk: int) -> HttpResponse:
    """Show the key that the host shows, and confirm it or another one."""
    draft = _get_draft(request, pk)
    form = HostKeyForm(request.POST if "paste" in request.POST else None)
    try:
        if "fetch" in request.POST:
            enqueue_visit(drafts.request_host_key(draft))
            return redirect("cluster_draft_host_key", pk)
        if "confirm" in request.POST:
            drafts.confirm_host_key(draft, read_posted_text(request, "confirm"))
            return redirect("cluster_draft_credential", pk)
        if "paste" in request.POST and form.is_valid():
            drafts.paste_host_key(draft, form.cleaned_data["line"])
            return redirect("cluster_draft_credential", pk)
    except drafts.NotDone as problem:
        if form.is_bound:
            form.add_error("line", str(problem))
        else:
            messages.error(request, str(problem))
    latest = drafts.get_latest_key(draft)
    shown = latest.last.fingerprint if latest.last and latest.last.key else ""
    is_other = bool(draft.host_key and shown) and shown != draft.fingerprint
    return _render(request, draft, "host_key", form=form, latest=latest, is_other=is_other)


@sensitive_post_parameters("import-private_key", "import-passphrase")
@require_http_methods(["GET", "HEAD", "POST"])
def credential(request: Request, pk: int) -> HttpResponse:
    """Choose the key by which Tare logs in, make one, or import one."""
    draft = _get_draft(request, pk)
    if not draft.host_key:
        return redirect("cluster_draft_host_key", pk)
    action = request.POST.get("action", "")
    chosen, forms = _read_credential(request, draft, action)
    if chosen:
        drafts.choose_credential(draft, chosen)
        if action == "choose":
            return redirect("cluster_draft_test", pk)
        return redirect("cluster_draft_credential", pk)
    lines = []
    if draft.credential:
        lines = authorized_keys.make_lines(draft.credential, keys.find_public_key(draft.credential))
    forms["has_credentials"] = Credential.objects.usable_by(request.user).exists()
    return _render(request, draft, "credential", lines=lines, action=action, **forms)


def _read_credential(
    request: Request, draft: ClusterDraft, action: str
) -> tuple[Credential | None, dict[str, Any]]:
    """Return the credential that was chosen, made or imported, and the forms to show."""
    known = {"name": _propose_name(draft.name), "user_name": draft.user_name}

    def read(name: str) -> Any:
        return request.POST if action == name else None

    choice = CredentialChoiceForm(
        read("choose"), user=request.user, initial={"credential": draft.credential_id}
    )
    make = CredentialForm(read("make"), prefix="make", initial=known)
    files = request.FILES if action == "import" else None
    hand_in = ImportForm(read("import"), files, prefix="import", initial=known)
    forms = {"choice": choice, "make": make, "hand_in": hand_in}
    if action == "choose" and choice.is_valid():
        return choice.cleaned_data["credential"], forms
    if action == "make" and make.is_valid():
        return keys.add(make.instance, keys.make_pair(), Origin.GENERATED, request.user), forms
    if action == "import" and hand_in.is_valid() and hand_in.pair:
        added = keys.add(hand_in.instance, hand_in.pair, Origin.IMPORTED, request.user)
        return added, forms
    return None, forms


def _propose_name(name: str) -> str:
    """Return a name for a new credential that none has yet."""
    taken = set(Credential.objects.filter(name__startswith=name).values_list("name", flat=True))
    numbered = (f"{name[:90]} {number}" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(each for each in numbered if each not in taken)


@require_http_methods(["GET", "HEAD", "POST"])
def test(request: Request, pk: int) -> HttpResponse:
    """Log in and read what the cluster offers."""
    draft = _get_draft(request, pk)
    if draft.next_step != "test":
        return redirect(draft)
    form = WorkDirectoryForm(request.POST or None, instance=draft)
    if request.method == "POST" and form.is_valid():
        form.instance.save(update_fields=["work_directory"])
        try:
            enqueue_visit(drafts.request_offer(draft))
        except drafts.NotDone as problem:
            messages.error(request, str(problem))
        return redirect("cluster_draft_test", pk)
    latest = drafts.get_latest_offer(_get_draft(request, pk))
    return _render(request, draft, "test", form=form, latest=latest)


@require_http_methods(["GET", "HEAD", "POST"])
def confirm(request: Request, pk: int) -> HttpResponse:
    """Choose among what was found, and add the cluster."""
    draft = _get_draft(request, pk)
    latest = drafts.get_latest_offer(draft)
    found = latest.last.offer if latest.last else None
    if draft.next_step != "test" or latest.last is None or found is None:
        return redirect("cluster_draft_test", pk)
    data = request.POST or None
    form = make_cluster_form(draft, latest.last, found, data)
    rows = make_partition_rows(found, data)
    if data and is_complete(form, rows, latest.last):
        try:
            made = add_cluster(draft, latest.last, form, rows)
            text = "Tare now checks it, on a compute node of each partition too."
            messages.success(request, f"{made} is added. {text}")
            return redirect("cluster", made.pk)
        except drafts.NotDone as problem:
            form.add_error(None, str(problem))
    label = dict(scheduler_choices())[found.scheduler]
    return _render(
        request,
        draft,
        "confirm",
        form=form,
        rows=rows,
        found=found,
        latest=latest,
        scheduler_label=label,
    )


@require_POST
def discard(request: Request, pk: int) -> HttpResponse:
    """Forget a cluster that was not added; a credential that was made for it stays."""
    draft = _get_draft(request, pk)
    draft.delete()
    messages.success(request, f"{draft} is discarded. Credentials stay.")
    return redirect("clusters")


def _get_draft(request: Request, pk: int) -> ClusterDraft:
    require(why_not_add(request.user, Cluster))
    rows = ClusterDraft.objects.select_related("owner", "credential", "jump_host")
    return get_object_or_404(rows, pk=pk, owner=request.user)


def _render(request: Request, draft: ClusterDraft, step: str, **context: Any) -> HttpResponse:
    """Render the page of one step, or the part of it that refreshes itself."""
    names = [name for name, _ in STEPS]
    reached = names.index(draft.next_step) if draft.pk else 0
    if draft.pk and reached == names.index("test"):
        last = drafts.get_latest_offer(draft).last
        reached += bool(last and last.found)
    context |= {
        "draft": draft,
        "step": step,
        "number": names.index(step) + 1,
        "title": dict(STEPS)[step],
        "steps": [
            (name, title, number <= max(reached, names.index(step)))
            for number, (name, title) in enumerate(STEPS)
        ],
        "refresh_seconds": SECONDS if getattr(context.get("latest"), "under_way", None) else 0,
    }
    template = f"clusters/new/{step}.html" + ("#live" if request.htmx and step in LIVE else "")
    return render(request, template, context)
