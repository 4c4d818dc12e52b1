"""The pages from a question to a launched experiment."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.access.rights import get_editable, get_readable, require_maker_of
from dashboard.planning.experiment_forms import ExperimentForm
from dashboard.planning.script_views import describe_script
from dashboard.planning.sweep_fields import list_sweep_names
from dashboard.planning.unsaved_views import make_data, read_page
from dashboard.typed_requests import Request
from experiments.execution import lifecycle
from experiments.imports.imported_runs import forget
from experiments.models import Experiment, UnsavedForm
from experiments.notify import enqueue_tick
from experiments.planning.unsaved_forms import (
    Page,
    describe_sweeps,
    find_kept,
    forget_kept,
    hash_stored,
    hash_values,
    list_kept,
    name_key,
    open_page,
)
from experiments.presets.experiment_copies import (
    OF_OTHERS,
    NotCopied,
    is_copyable,
    make_copy,
)

SAVED_ELSEWHERE = (
    "This draft was saved in another tab, or by somebody else, since this page was opened. Open it "
    "in a new tab to see what was saved. Pressed once more, the button saves what stands here in "
    "its place."
)
FROZEN = "A launched experiment is frozen."
REFUSED = {"save": "Not saved", "launch": "Not launched"}
"""What was tried -> what the summary says while something stands against it."""


@require_maker_of(Experiment)
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: Request) -> HttpResponse:
    """Show the form of a new experiment, and store or launch it."""
    return _form(request, Experiment(owner=request.user))


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: Request, pk: int) -> HttpResponse:
    """Show the form of a draft, and store or launch it."""
    return _form(request, _draft(request, pk))


def _form(request: Request, experiment: Experiment) -> HttpResponse:
    """Show, preview, save or launch a draft, by the pressed button; no button is a preview.

    A preview keeps quiet about what is missing, until somebody has tried to save or launch.
    """
    action = request.POST.get("action", "")
    refused = REFUSED.get(action) or REFUSED.get(request.POST.get("attempted", ""), "")
    if request.method != "POST":
        return _open(request, experiment)
    if action == "cluster" or request.htmx.trigger_name == "cluster":
        initial = _read_typed_values(request.POST)
        fresh = ExperimentForm(instance=Experiment(), initial=initial, user=request.user)
        return _page(request, fresh, "#fields" if request.htmx else "", refused)
    form = ExperimentForm(request.POST, instance=experiment, user=request.user)
    if request.htmx.trigger_name == "workload_filter":
        return _page(request, form, "#workloads")
    valid = form.is_valid()
    if action not in REFUSED:
        script = {} if request.htmx else describe_script(form, request.POST)
        if not refused:
            form.forgive_what_is_missing()
        return _page(request, form, "#consequences" if request.htmx else "", refused, **script)
    if not valid:
        return _page(request, form, refused=refused)
    with transaction.atomic():  # the row and its lists of workloads and environments
        if experiment.pk and not Experiment.objects.lock_drafts().filter(pk=experiment.pk):
            raise PermissionDenied(FROZEN)  # launched or deleted since this request began
        if seen := _find_newer(request, experiment):
            form.add_error(None, SAVED_ELSEWHERE)
            return _page(request, form, refused=refused, seen=seen)
        saved = form.save()
        if page := read_page(request.POST):
            forget_kept(request.user, page.key)
    return _launch(request, saved) if action == "launch" else redirect(saved)


def _read_typed_values(data: QueryDict) -> dict[str, Any]:
    """Return what was typed so far as initial values, for a form that does not judge it yet."""
    several = {"workloads", "environments"}
    return {
        name: data.getlist(name) if name in several else data[name]
        for name in [*ExperimentForm.base_fields, *list_sweep_names(data)]
        if name in data
    }


def _open(request: Request, experiment: Experiment) -> HttpResponse:
    """Show the form, with what was typed into it and not saved."""
    key = name_key(experiment) if experiment.pk else request.GET.get("unsaved", "")
    row = find_kept(request.user, key) if key else None
    if row:
        form = ExperimentForm(make_data(row), instance=experiment, user=request.user)
        form.forgive_what_is_missing()
    else:
        initial: dict[str, object] = {}
        if "cluster" in request.GET:
            initial["cluster"] = request.GET["cluster"]
        if "workload" in request.GET and not experiment.pk:
            initial["workloads"] = request.GET.getlist("workload")
        form = ExperimentForm(instance=experiment, initial=initial, user=request.user)
    others = [] if experiment.pk else [one for one in list_kept(request.user) if one != row]
    seen = (row.values.get("seen") or [""])[0] if row else ""
    page = open_page(experiment, row)
    return _page(request, form, seen=seen, page=page, kept=row, others=others)


def _find_newer(request: Request, experiment: Experiment) -> str:
    """Return the hash of the stored draft if the page was opened before it was saved last."""
    seen = request.POST.get("seen", "")
    if not (experiment.pk and seen):
        return ""
    stored = hash_stored(experiment, ExperimentForm.Meta.fields)
    return stored if stored != seen else ""


def _page(
    request: Request,
    form: ExperimentForm,
    fragment: str = "",
    refused: str = "",
    *,
    seen: str = "",
    page: Page | None = None,
    **context: Any,
) -> HttpResponse:
    attempted = next((action for action, message in REFUSED.items() if message == refused), "")
    context |= {"form": form, "refused": refused, "attempted": attempted}
    if not fragment:
        context["page"] = page or read_page(request.POST) or open_page(form.instance, None)
        context["seen"] = seen or request.POST.get("seen") or _hash_shown(form)
    return render(request, f"planning/form.html{fragment}", context)


def _hash_shown(form: ExperimentForm) -> str:
    """Return the hash of the draft that the form was opened with; "" of a new one."""
    if not form.instance.pk:
        return ""
    stored = {name: form.stored.get(name) for name in ExperimentForm.Meta.fields}
    return hash_values(stored | describe_sweeps(form.instance))


@require_POST
def delete(request: Request, pk: int) -> HttpResponse:
    """Delete a draft or an import; what was launched in the meantime stays."""
    draft = get_editable(request, pk)
    if draft.imported_at or draft.is_from_bundle:
        forget(draft, request.user)
        messages.success(request, f"Deleted the import “{draft}”.")
        return redirect("experiments")
    draft = _draft(request, pk)
    if lifecycle.discard(draft):
        messages.success(request, f"Deleted the draft “{draft}”.")
        return redirect("experiments")
    messages.error(request, "Not deleted: it has been launched.")
    return redirect(draft)


@require_POST
def launch(request: Request, pk: int) -> HttpResponse:
    """Launch a draft from its page."""
    return _launch(request, _draft(request, pk))


def _launch(request: Request, experiment: Experiment) -> HttpResponse:
    """Freeze and start the experiment; on refusal show the reasons and keep the draft."""
    try:
        lifecycle.launch(experiment, request.user)
    except lifecycle.NotLaunchable as refusal:
        messages.error(request, f"Saved, but not launched. {refusal}")
        return redirect(experiment)
    UnsavedForm.objects.filter(experiment=experiment).delete()
    enqueue_tick(experiment.cluster_id)
    messages.success(request, "Launched. The design can no longer be changed.")
    return redirect(experiment)


def _draft(request: Request, pk: int) -> Experiment:
    experiment = get_editable(request, pk)
    if not experiment.is_draft:
        raise PermissionDenied(FROZEN)
    return experiment


@require_maker_of(Experiment)
@require_POST
def clone(request: Request, pk: int) -> HttpResponse:
    """Create a draft of one's own with the same definition."""
    source = get_readable(request, pk)
    if not is_copyable(source):
        raise PermissionDenied(OF_OTHERS)
    try:
        draft = make_copy(source, request.user)
    except NotCopied as refusal:
        messages.error(request, str(refusal))
        return redirect(source)
    messages.success(request, "A draft with the same definition. The first one is untouched.")
    return redirect("experiment_edit", pk=draft.pk)
