"""The pages from a question to a launched experiment."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.access.rights import get_editable, get_readable, require_maker_of
from dashboard.planning.experiment_forms import ExperimentForm, read_typed_values
from dashboard.typed_requests import Request
from experiments.execution import lifecycle
from experiments.imports.imported_runs import forget
from experiments.models import Experiment
from experiments.notify import enqueue_tick

COPIED = (
    "question",
    "cluster",
    "partition",
    "baseline",
    "scales",
    "repeats",
    "looks",
    "design",
    "margin",
    "primary_metric",
    "warm_up",
    "cooldown_seconds",
    "reject_swap",
    "reject_throttled",
    "reject_below_mhz",
)


REFUSED = {"save": "Not saved", "launch": "Not launched"}
"""What was tried -> what the summary says while something stands against it."""


@require_maker_of(Experiment)
@require_http_methods(["GET", "POST"])
def new(request: Request) -> HttpResponse:
    """Show the form of a new experiment, and store or launch it."""
    return _form(request, Experiment(owner=request.user))


@require_http_methods(["GET", "POST"])
def edit(request: Request, pk: int) -> HttpResponse:
    """Show the form of a draft, and store or launch it."""
    return _form(request, _draft(request, pk))


def _form(request: Request, experiment: Experiment) -> HttpResponse:
    """Show, preview, save or launch a draft, by the pressed button; no button is a preview.

    A preview keeps quiet about what is missing, until somebody has tried to save or launch.
    """
    action = request.POST.get("action", "")
    refused = REFUSED.get(action) or REFUSED.get(request.POST.get("attempted", ""), "")
    if request.method == "GET":
        initial = {"cluster": request.GET["cluster"]} if "cluster" in request.GET else {}
        return _page(
            request, ExperimentForm(instance=experiment, initial=initial, user=request.user)
        )
    if action == "cluster" or request.htmx.trigger_name == "cluster":
        initial = read_typed_values(ExperimentForm, request.POST)
        fresh = ExperimentForm(instance=Experiment(), initial=initial, user=request.user)
        return _page(request, fresh, "#fields" if request.htmx else "", refused)
    form = ExperimentForm(request.POST, instance=experiment, user=request.user)
    valid = form.is_valid()
    if action not in REFUSED:
        if not refused:
            form.forgive_what_is_missing()
        return _page(request, form, "#consequences" if request.htmx else "", refused)
    if not valid:
        return _page(request, form, refused=refused)
    with transaction.atomic():  # the row and its lists of workloads and environments
        saved = form.save()
    return _launch(request, saved) if action == "launch" else redirect(saved)


def _page(
    request: Request, form: ExperimentForm, fragment: str = "", refused: str = ""
) -> HttpResponse:
    attempted = next((action for action, message in REFUSED.items() if message == refused), "")
    context = {"form": form, "refused": refused, "attempted": attempted}
    return render(request, f"planning/form.html{fragment}", context)


@require_POST
def delete(request: Request, pk: int) -> HttpResponse:
    """Delete a draft or an import; what was launched in the meantime stays."""
    draft = get_editable(request, pk)
    if draft.imported_at:
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
    enqueue_tick(experiment.cluster_id)
    messages.success(request, "Launched. The design can no longer be changed.")
    return redirect(experiment)


def _draft(request: Request, pk: int) -> Experiment:
    experiment = get_editable(request, pk)
    if not experiment.is_draft:
        raise PermissionDenied("A launched experiment is frozen.")
    return experiment


@require_maker_of(Experiment)
@require_POST
def clone(request: Request, pk: int) -> HttpResponse:
    """Create a draft of one's own with the same definition."""
    source = get_readable(request, pk)
    if source.imported_at:
        raise PermissionDenied("Runs that others have made cannot be launched again.")
    copied = {name: getattr(source, name) for name in COPIED}
    with transaction.atomic():
        draft = Experiment.objects.create(owner=request.user, **copied)
        draft.workloads.set(source.workloads.all())
        draft.environments.set(source.environments.all())
    messages.success(request, "A draft with the same definition. The first one is untouched.")
    return redirect("experiment_edit", pk=draft.pk)
